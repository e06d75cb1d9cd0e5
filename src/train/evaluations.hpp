#pragma once

#include "best_model.hpp"
#include "early_stopping.hpp"
#include "learner_logs.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/train/training_loop.hpp"
#include "trainer_state.hpp"

namespace ringshard::train {

// The evaluations of a run, the best of each learner, and whether they end it early.
class Evaluations {
public:
    // `parts` must outlive it.
    explicit Evaluations(const RunParts& parts);

    // Takes a line of metrics of a learner; returns true if it is an evaluation better than all
    // before. On rank 0.
    bool take(size_t learner, const MetricsLine& line) { return standings_[learner].take(line); }
    // Ends the learners whose lines, which rank 0 has taken, ask for it. Collective over the world.
    void share_ends();
    // Evaluates some learners by each of their sets, generates the texts of eval_prompts, and
    // writes all into the logs, a line for each set. Ends those that do not improve, as
    // early_stopping_patience has it. Returns true if one of them is better than all before.
    // Collective over the world.
    comm::Agreed<bool> run(const std::vector<size_t>& learners, Log& log, LearnerLogs& logs);
    // Evaluates the model by each evaluation set, without a line. Collective over the world.
    std::vector<EvaluationNumbers> predict() const;

    // The best evaluation of a learner so far, and its early stopping. On rank 0.
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
    const Standing& of_learner(size_t learner) const { return standings_[learner]; }
    // Of the learner that has no name; of no evaluation where all have one.
    const Standing& of_run() const;
    std::vector<BestModel> all_best() const;
    // The last evaluation of each set; where learners have names, the means over them.
    const std::vector<EvaluationNumbers>& last() const { return last_; }

private:
    EvaluationNumbers evaluate(const Evaluator& evaluator) const;
    // Returns the numbers of each set, and adds 1 to `found_better` if one is better than all
    // before.
    comm::Agreed<std::vector<EvaluationNumbers>> run_sets(size_t learner, LearnerLogs& logs,
                                                          int64_t& found_better);
    // Gives the trainer the number that its learning rate follows, which rank 0 has found. There is
    // none before the first step, as in transformers. Collective over the world.
    void share_metric(size_t learner, double value) const;
    // The texts of eval_prompts, if there are any.
    std::vector<TextSample> generate(size_t learner) const;
    std::vector<const Evaluator*> sets_of(size_t learner) const;
    void say_stop(size_t learner, Log& log) const;

    const RunParts& parts_;
    std::vector<Standing> standings_;  // by learner
    Standing of_no_evaluation_;
    std::vector<EvaluationNumbers> last_;
};

// Returns the state that a run of this learner alone has, without the best checkpoint.
TrainerState state_of(const Learner& learner, const Evaluations::Standing& standing,
                      const config::Config& config, int64_t step,
                      const std::filesystem::path& output_dir);

}  // namespace ringshard::train
