#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/checkpoint/checkpoint.hpp"
#include "ringshard/config/training_settings.hpp"
#include "ringshard/data/loader.hpp"
#include "ringshard/optim/optimizer.hpp"
#include "ringshard/optim/plateau.hpp"
#include "ringshard/optim/schedule.hpp"
#include "ringshard/train/numbers.hpp"

namespace ringshard::train {

// Returns the number of steps of a learner.
int64_t count_steps(const config::TrainingSettings& settings, int64_t steps_per_epoch);

// Trains on rows of its own, by settings of its own. A run has one, its model, or one for each of
// the adapters that share a model.
class Learner {
public:
    struct Setup {
        config::TrainingSettings settings;
        data::Loader& loader;
        int64_t seed = 42;   // of dropout
        std::string name{};  // of an adapter among several, whose folder has it
    };
    explicit Learner(const Setup& setup);

    const std::string& name() const { return name_; }
    // "model", or "adapter NAME".
    std::string title() const;
    const config::TrainingSettings& settings() const { return settings_; }

    int64_t num_steps() const { return num_steps_; }
    int64_t planned_steps() const { return planned_steps_; }  // the same, if it does not end early
    int64_t num_epochs() const;                               // that the planned steps begin
    double epochs_done() const { return loader_.epochs_done(); }
    bool is_at_epoch_end() const { return loader_.is_at_epoch_end(); }
    const checkpoint::Progress::OfLearner& progress() const { return progress_; }

    // Goes to the position of a checkpoint of this step.
    void go_to(const checkpoint::Progress::OfLearner& progress, int64_t step);
    // Makes this step the last one, whatever the settings say.
    void end_at(int64_t step);

    // The micro-batches of the next step; none after the last one.
    std::vector<data::FlatBatch> next_rows(int64_t step);
    const data::Rows& rows() const { return loader_.rows(); }
    const std::vector<int64_t>& rows_of_step() const { return loader_.rows_of_step(); }
    // Returns true if it has a step after this one.
    bool trains_after(int64_t step) const { return step < num_steps_; }
    uint64_t dropout_of(int64_t step) const;
    double learning_rate(int64_t step) const;
    optim::Update update_by(const StepNumbers& numbers) const;
    // Counts a step that changed the weights, or one that did not; returns how many of the latter
    // came one after another.
    void took_step() { skipped_in_a_row_ = 0; }
    int64_t skipped_step() { return ++skipped_in_a_row_; }
    // Goes on by a step; `numbers`: of it, which it completes.
    void advance(int64_t counted_tokens, StepNumbers& numbers);

    // Returns true if the learning rate follows the evaluations, and takes one of these.
    bool follows_evaluations() const { return plateau_.has_value(); }
    void take_metric(double value);

private:
    config::TrainingSettings settings_;
    data::Loader& loader_;
    uint64_t seed_;
    std::string name_;
    int64_t planned_steps_;
    int64_t num_steps_;
    optim::Schedule schedule_;
    std::optional<optim::Plateau> plateau_;  // in place of the schedule
    int64_t skipped_in_a_row_ = 0;
    checkpoint::Progress::OfLearner progress_;
};

// Adds a step to the sums of a run.
void add_step(std::optional<checkpoint::RunSums>& sums, const StepNumbers& of_step);

}  // namespace ringshard::train
