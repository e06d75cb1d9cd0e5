#pragma once

#include "adapter_logs.hpp"
#include "best_model.hpp"
#include "early_stopping.hpp"
#include "log.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/train/training_loop.hpp"

namespace ringshard::train {

// The evaluations of a run, the best of them, and whether they end the run early.
class Evaluations {
public:
    // `parts` must outlive it.
    explicit Evaluations(const RunParts& parts);

    // Takes a line of metrics; returns true if it is an evaluation better than all before. On rank
    // 0.
    bool take(const MetricsLine& line) { return of_model_.take(line); }
    // The same of one of the adapters that train together.
    bool take(size_t adapter, const MetricsLine& line) { return of_adapters_[adapter].take(line); }
    // Tells all ranks whether the lines that rank 0 has taken end the run. Collective over the
    // world.
    void share_end();
    // Evaluates the model by each evaluation set, generates the texts of eval_prompts, and writes
    // all into the log, a line for each set. Returns true if the model is better than all before.
    // Collective over the world.
    comm::Agreed<bool> run(Log& log);
    // Evaluates adapters that train together one after another, each on rows of its own and with
    // texts of its own, and ends those that do not improve, as early_stopping_patience has it. The
    // line of the job has the means over them. Returns true if one of them is better than before.
    // Collective over the world.
    comm::Agreed<bool> run_adapters(const std::vector<size_t>& adapters, Log& log,
                                    AdapterLogs& logs);

    // Evaluates the model by each evaluation set, without a line. Collective over the world.
    std::vector<EvaluationNumbers> predict() const;

    bool stops_early() const { return stops_early_; }
    // The best evaluation of a model, or of an adapter, so far, and its early stopping. On rank 0.
    struct Standing {
        explicit Standing(const config::EvaluationSettings& settings)
            : best(settings), early_stopping(settings) {}
        bool take(const MetricsLine& line) {
            early_stopping.take(line, best);
            return best.consider(line);
        }
        BestModel best;
        EarlyStopping early_stopping;
    };
    // Of the model; of no evaluation where several adapters train together.
    const Standing& of_model() const { return of_model_; }
    const Standing& of_adapter(size_t adapter) const { return of_adapters_[adapter]; }
    // Of the model, or of each of these adapters.
    std::vector<BestModel> all_best() const;
    // The last evaluation of each set.
    const std::vector<EvaluationNumbers>& last() const { return last_; }

private:
    EvaluationNumbers evaluate(const Evaluator& evaluator) const;
    // Gives the trainer the number that its learning rate follows, which rank 0 has found. There is
    // none before the first step, as in transformers. Collective over the world.
    void share_metric(size_t curve, double value) const;
    // The texts of eval_prompts, if there are any.
    std::vector<TextSample> generate(std::optional<size_t> adapter = std::nullopt) const;
    void say_stop(const std::string& what, int64_t num_steps, const Standing& standing,
                  Log& log) const;

    const RunParts& parts_;
    std::vector<std::string> names_;  // of the evaluation sets
    Standing of_model_;
    std::vector<Standing> of_adapters_;
    bool stops_early_ = false;  // on all ranks
    std::vector<EvaluationNumbers> last_;
};

}  // namespace ringshard::train
