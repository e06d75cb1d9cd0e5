#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ringshard/shard/zero.hpp"

namespace ringshard::config {
struct TrainingSettings;
enum class Optimizer;
}  // namespace ringshard::config

namespace ringshard::optim {

// One number per weight that an optimizer keeps between steps, in the chunks of Zero. Checkpoints
// store it under its name.
struct State {
    std::string name;
    std::unique_ptr<shard::FlatStore> numbers;  // fp32 or bf16
};

// Updates this rank's shards. Each kind of optimizer is a class that derives from this one; it
// says which states it keeps and how one range of weights is updated.
class Optimizer {
public:
    virtual ~Optimizer() = default;
    Optimizer(const Optimizer&) = delete;
    Optimizer& operator=(const Optimizer&) = delete;

    // The update of the weights of one of the adapters that train together.
    struct Update {
        double learning_rate;
        double gradient_scale;  // multiplies the gradients first
        double weight_decay;
        double output_rate;  // factor of the learning rate of B, magnitudes and vectors
    };
    // Updates the weights of all chunks and clears their gradients. Matrices and magnitudes of
    // adapters decay, other vectors do not. One update for each of Zero::num_adapters(); the
    // weights of an adapter without one stay as they are.
    void step(shard::Zero& zero, std::span<const std::optional<Update>> updates);
    // step() for all weights, with weight_decay and loraplus_lr_ratio of the settings.
    void step(shard::Zero& zero, double learning_rate, double gradient_scale);

    // Counts a step that changed no weight: bias corrections follow the steps of the run.
    void skip_step() { ++steps_done_; }

    // Sets all states to zero, as before the first step.
    void forget(const shard::Zero& zero);

    const std::vector<State>& states() const { return states_; }
    int64_t memory() const;            // bytes of all states, in memory
    int64_t bytes_per_weight() const;  // of all states, wherever they lie
    int64_t steps_done() const { return steps_done_; }
    void set_steps_done(int64_t steps) { steps_done_ = steps; }

protected:
    // A range of weights with one decay and one rate, with their states and gradients: flat, all of
    // the same size.
    struct Slice {
        at::Tensor weights;              // fp32
        std::vector<at::Tensor> states;  // in the order of states()
        at::Tensor gradient;             // fp32; the update clears it
        at::Tensor rounded;              // gets the new weights in bf16; undefined: none
        // The number of the slice's first element among all trained weights, or among those of one
        // adapter.
        int64_t first_place;
        double weight_decay;
    };
    struct StepSize {
        double learning_rate;
        double gradient_scale;
        int64_t step;  // from 1
    };

    // The states lie in the offload store, if there is one.
    Optimizer(const shard::Zero& zero, const config::TrainingSettings& settings,
              const std::vector<std::string>& state_names, offload::OffloadStore* offload_store);

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
    void update_range(const Loaded& chunk, const shard::FlatUnit::UpdateRange& alike,
                      const std::optional<Update>& asked, int64_t first_place) const;

    std::vector<State> states_;
    double weight_decay_;
    double loraplus_lr_ratio_;
    int64_t steps_done_ = 0;
};

// The optimizer that `settings.optim` names.
std::unique_ptr<Optimizer> make_optimizer(const shard::Zero& zero,
                                          const config::TrainingSettings& settings,
                                          offload::OffloadStore* offload_store = nullptr);

// The names of the states that make_optimizer() would make.
std::vector<std::string> state_names(config::Optimizer kind);
// Bytes of these states for one weight.
int64_t state_bytes(const config::TrainingSettings& settings);
// Bytes of one weight that an update reads or writes: master and states both ways, and the
// gradient, which is cleared beside it.
int64_t update_bytes(const config::TrainingSettings& settings);

// Returns the factor by which gradients are multiplied so that their norm is at most max_norm; 1
// where max_norm is 0.
double clip_scale(double norm, double max_norm);

}  // namespace ringshard::optim
