#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ringshard/config/training_settings.hpp"
#include "ringshard/ops/update_rules.hpp"
#include "ringshard/optim/update_groups.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::optim {

// Numbers that an optimizer keeps between steps for the weights of a shelf. Checkpoints store them
// under this name. All ranks that divide a unit, or a section, hold the whole factors of it.
struct State {
    StateSpec spec;
    std::unique_ptr<shard::Chunks> chunks;  // of the shelf, in numbers
    std::unique_ptr<shard::FlatStore> numbers;

    // The numbers of a unit that belong to this rank alone, as Zero::exclusive_range() has it.
    shard::Range exclusive_range(const shard::Zero& zero, size_t unit) const;
};

// The update of the weights of one of the variants that train together.
struct Update {
    double learning_rate;
    double gradient_scale;  // multiplies the gradients first
    double weight_decay;
    double output_rate;       // factor of the learning rate of B, magnitudes and vectors
    double warmup_steps = 0;  // of optimizers that raise the learning rate themselves
};

// A step of weights with one decay and one rate.
struct StepSize : ops::UpdateStep {
    double beta1;
    double beta2;
    size_t variant;
};

// For each tensor of each unit: how many elements the trained tensors before it have, of the same
// variant and in the order of names. So the places of its elements are the same however a model is
// divided.
using FirstPlaces = std::vector<std::vector<int64_t>>;

// Updates the weights of one shelf. Each optimizer is a class that derives from it: it says how one
// range of weights is updated.
class Updater {
public:
    explicit Updater(const UpdaterContext& context);
    virtual ~Updater() = default;
    Updater(const Updater&) = delete;
    Updater& operator=(const Updater&) = delete;

    const shard::Shelf& shelf() const { return shelf_; }
    const std::vector<State>& states() const { return states_; }

    // A step of a run, from 1, with an update for each of the variants; the weights of a variant
    // without one stay as they are.
    struct Step {
        int64_t number;
        std::span<const std::optional<Update>> updates;
        const FirstPlaces& first_places;
    };
    // Updates the weights of all chunks and clears their gradients. Collective over the groups of
    // the shelf's units for some optimizers.
    virtual void step(const Step& step);
    // Operations of the matrix products of a step, in bf16, on the rank with most of them.
    virtual double product_operations() const { return 0; }

protected:
    // A range of weights with one decay and one rate, with their states and gradients: flat, the
    // states in numbers.
    struct Slice {
        at::Tensor weights;              // fp32
        std::vector<at::Tensor> states;  // in the order of states(); undefined: a factor
        at::Tensor gradient;             // fp32; the update clears it
        at::Tensor rounded;              // gets the compute weights; undefined: none
        int64_t first_place;             // FirstPlaces', if a state is in bf16
        size_t unit;
        shard::Range range;  // of the unit
    };
    const config::TrainingSettings& settings() const { return settings_; }
    const shard::Zero& zero() const { return zero_; }

private:
    // A chunk in memory.
    struct Loaded {
        shard::Range range;  // of its unit
        at::Tensor weights;
        std::vector<at::Tensor> states;
        at::Tensor gradient;
        at::Tensor rounded;
    };
    virtual void update(const Slice& slice, const StepSize& size) const = 0;
    void update(const Loaded& chunk, size_t unit, const Step& step) const;
    struct PlacedRange {
        shard::Range range;
        int64_t first_place;
    };
    std::vector<PlacedRange> parts_of(size_t unit, const shard::Range& range,
                                      const FirstPlaces& first_places) const;
    // Writes the compute weights of a slice without an update.
    virtual void keep(const Slice& slice, const StepSize& size) const;
    Loaded load(size_t chunk) const;
    void store(size_t chunk, Loaded loaded) const;
    Slice cut(const Loaded& chunk, size_t unit, const shard::Range& part,
              int64_t first_place) const;
    StepSize size_of(const Update& update, const shard::FlatUnit::UpdateRange& alike,
                     int64_t step) const;

    config::TrainingSettings settings_;
    const shard::Zero& zero_;
    const UpdateGroups& groups_;
    const shard::Shelf& shelf_;
    std::vector<State> states_;
};

// The optimizer of a run: an updater for each trained shelf.
class Optimizer {
public:
    // `zero` must outlive it. The states lie in the offload store, if there is one.
    Optimizer(const shard::Zero& zero, const config::TrainingSettings& settings,
              offload::OffloadStore* offload_store);
    Optimizer(const Optimizer&) = delete;
    Optimizer& operator=(const Optimizer&) = delete;

    // Matrices and magnitudes of adapters decay, other vectors do not. One update for each of
    // Zero::num_variants().
    void step(shard::Zero& zero, std::span<const std::optional<Update>> updates);
    // step() for all weights, with weight_decay and loraplus_lr_ratio of the settings.
    void step(shard::Zero& zero, double learning_rate, double gradient_scale);

    // An optimizer may take gradients at other points than the weights that it makes.
    // begin_training() makes Zero::weights() return these points, begin_evaluation() the weights,
    // if it does not do so yet. Collective over the zero group.
    void begin_training(shard::Zero& zero);
    void begin_evaluation(shard::Zero& zero) const;

    // Counts a step that changed no weight: bias corrections follow the steps of the run.
    void skip_step() { ++steps_done_; }

    // Sets all states to zero, as before the first step.
    void forget();

    const std::vector<std::unique_ptr<Updater>>& updaters() const { return updaters_; }
    int64_t memory() const;             // bytes of all states, in memory
    double product_operations() const;  // Updater's, of all
    // Bytes of the states of the weights that belong to this rank alone, wherever they lie.
    int64_t own_bytes(const shard::Zero& zero) const;
    int64_t steps_done() const { return steps_done_; }
    void set_steps_done(int64_t steps) { steps_done_ = steps; }

private:
    bool has_points_of_gradients() const;

    UpdateGroups groups_;
    Update usual_;  // without the learning rate
    FirstPlaces first_places_;
    std::vector<std::unique_ptr<Updater>> updaters_;
    int64_t steps_done_ = 0;
};

// The optimizer that `settings.optim` names.
std::unique_ptr<Optimizer> make_optimizer(const shard::Zero& zero,
                                          const config::TrainingSettings& settings,
                                          offload::OffloadStore* offload_store = nullptr);

// Returns the factor by which gradients are multiplied so that their norm is at most max_norm; 1
// where max_norm is 0.
double clip_scale(double norm, double max_norm);

}  // namespace ringshard::optim
