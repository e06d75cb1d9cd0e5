#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "best_model.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/checkpoint/checkpoint.hpp"
#include "ringshard/config/checkpoint_settings.hpp"
#include "ringshard/train/metrics.hpp"

namespace ringshard::train {

// The results of this attempt, from its first step to the end.
struct RunTotals {
    checkpoint::RunSums before{};  // of the attempts that it goes on from
    int64_t num_steps = 0;
    int64_t rows = 0;
    int64_t tokens = 0;
    double sum_of_losses = 0;  // over the steps that were not skipped
    int64_t num_losses = 0;
    double first_loss = 0;
    double last_loss = 0;
    double seconds_in_steps = 0;
    double operations = 0;
    Timer since_start;

    void add(const StepNumbers& numbers);
    double all_operations() const { return before.operations + operations; }
    // train_runtime and what transformers writes with it.
    MetricsLine end_line(int64_t step, double epoch) const;
    // A table for people, with where the results are. `evaluated`: the last numbers of each set.
    // `result`: where the model or its adapters are.
    std::string summary(int64_t step, const std::vector<EvaluationNumbers>& evaluated,
                        int64_t peak_memory_bytes, const BestModel& best,
                        const std::filesystem::path& folder, const std::string& result) const;
};

// Returns the command that uploads a finished output_dir to the Hugging Face hub.
std::string upload_command(const config::CheckpointSettings& settings,
                           const std::filesystem::path& folder);

// Returns the content of predict_results.json: the numbers of each evaluation set.
std::string predict_results(const std::vector<EvaluationNumbers>& all);
// Returns the losses of all sets, for a message.
std::string joined_losses(const std::vector<EvaluationNumbers>& all);

// "eval at step 10: loss 4.7217 ..."
std::string evaluation_text(int64_t step, const EvaluationNumbers& numbers);

// Returns the line that shows a text of eval_prompts, with the end of a long prompt.
std::string sample_text(const TextSample& sample);

}  // namespace ringshard::train
