#pragma once

#include "adapter_logs.hpp"
#include "best_model.hpp"
#include "early_stopping.hpp"
#include "log.hpp"
#include "ringshard/train/training_loop.hpp"

namespace ringshard::train {

// The evaluations of a run, the best of them, and whether they end the run early.
class Evaluations {
public:
    // `parts` must outlive it.
    explicit Evaluations(const RunParts& parts)
        : parts_(parts), best_(parts.config.evaluation), early_stopping_(parts.config.evaluation) {}

    // Takes a line of metrics; returns true if it is an evaluation better than all before. On rank
    // 0.
    bool take(const MetricsLine& line);
    // Tells all ranks whether the lines that rank 0 has taken end the run. Collective over the
    // world.
    void share_end();
    // Evaluates the model, generates the texts of eval_prompts, and writes both into the log.
    // Returns true if the model is better than all before. Collective over the world.
    comm::Agreed<bool> run(Log& log);
    // Evaluates adapters that train together one after another, each on rows of its own. The line
    // of the job has the means over them. Collective over the world.
    std::optional<comm::AgreedFailure> run_adapters(const std::vector<size_t>& adapters, Log& log,
                                                    AdapterLogs& logs);
    // Returns the adapters whose own runs would evaluate after this step.
    std::vector<size_t> due_adapters(const StepNumbers& numbers) const;

    bool stops_early() const { return stops_early_; }
    const BestModel& best() const { return best_; }                          // on rank 0
    const EarlyStopping& early_stopping() const { return early_stopping_; }  // on rank 0
    const std::optional<EvaluationNumbers>& last() const { return last_; }

private:
    EvaluationNumbers evaluate(const Evaluator& evaluator) const;

    const RunParts& parts_;
    BestModel best_;
    EarlyStopping early_stopping_;
    bool stops_early_ = false;  // on all ranks
    std::optional<EvaluationNumbers> last_;
};

}  // namespace ringshard::train
