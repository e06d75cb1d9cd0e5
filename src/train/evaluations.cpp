#include "evaluations.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "summary.hpp"

namespace ringshard::train {

Evaluations::Evaluations(const RunParts& parts)
    : parts_(parts),
      standings_(parts.trainer.learners().size(), Standing(parts.config.evaluation)),
      of_no_evaluation_(parts.config.evaluation) {}

void Evaluations::share_ends() {
    std::vector<int64_t> ends;
    for (const Standing& standing : standings_)
        ends.push_back(parts_.world.is_root() && standing.early_stopping.asks_to_stop() ? 1 : 0);
    ends = parts_.world.maximum(std::move(ends));
    const Trainer& trainer = parts_.trainer;
    for (size_t learner = 0; learner < ends.size(); ++learner)
        if (ends[learner] == 1 && trainer.learners()[learner].num_steps() > trainer.steps_done())
            parts_.trainer.end_early(learner);
}

const Evaluations::Standing& Evaluations::of_run() const {
    return parts_.trainer.learners().front().name().empty() ? standings_.front()
                                                            : of_no_evaluation_;
}

std::vector<BestModel> Evaluations::all_best() const {
    std::vector<BestModel> all;
    for (const Standing& standing : standings_) all.push_back(standing.best);
    return all;
}

void Evaluations::say_stop(size_t number, Log& log) const {
    const Learner& learner = parts_.trainer.learners()[number];
    const Standing& standing = standings_[number];
    log.say(
        format_text("{}early stopping after step {} of {}: early_stopping_patience is {}, and {} "
                    "was not better "
                    "than before for as many evaluations",
                    learner.name().empty() ? "" : format_text("{}: ", learner.title()),
                    parts_.trainer.steps_done(), learner.planned_steps(),
                    *standing.early_stopping.patience(), standing.best.metric()));
}

EvaluationNumbers Evaluations::evaluate(const Evaluator& evaluator) const {
    parts_.world.flight_recorder().set_activity("evaluating");
    parts_.faults.reach("evaluate");
    parts_.optimizer.begin_evaluation(parts_.zero);
    const EvaluationNumbers numbers = evaluator.evaluate([this](double operations) {
        parts_.watchdog.begin(watch::Work::evaluation);
        parts_.watchdog.expect(operations);
    });
    parts_.watchdog.begin(watch::Work::other);
    return numbers;
}

void Evaluations::share_metric(size_t learner, double value) const {
    const Trainer& trainer = parts_.trainer;
    if (!trainer.learners()[learner].follows_evaluations() || trainer.steps_done() == 0) return;
    auto bytes = std::bit_cast<std::array<char, sizeof(double)>>(value);
    const std::string sent = parts_.world.broadcast(std::string(bytes.begin(), bytes.end()));
    std::ranges::copy_n(sent.begin(), std::ssize(bytes), bytes.begin());
    parts_.trainer.take_metric(learner, std::bit_cast<double>(bytes));
}

std::vector<TextSample> Evaluations::generate(size_t learner) const {
    if (parts_.generator == nullptr) return {};
    parts_.world.flight_recorder().set_activity("generating texts");
    parts_.optimizer.begin_evaluation(parts_.zero);
    return parts_.generator->generate(learner);
}

std::vector<const Evaluator*> Evaluations::sets_of(size_t learner) const {
    std::vector<const Evaluator*> sets;
    for (const Evaluator& evaluator : parts_.evaluators)
        if (evaluator.learner() == learner) sets.push_back(&evaluator);
    return sets;
}

comm::Agreed<std::vector<EvaluationNumbers>> Evaluations::run_sets(size_t learner,
                                                                   LearnerLogs& logs,
                                                                   int64_t& found_better) {
    std::vector<EvaluationNumbers> all;
    const std::vector<const Evaluator*> sets = sets_of(learner);
    double metric = std::nan("");  // of the set that has it
    for (const Evaluator* const set : sets) {
        const EvaluationNumbers& numbers = all.emplace_back(evaluate(*set));
        const MetricsLine line = logs.line_of(learner, numbers);
        if (parts_.world.is_root() && take(learner, line)) ++found_better;
        if (const double value = number_in(line, standings_[learner].best.metric());
            !std::isnan(value))
            metric = value;
        const bool is_last = set == sets.back();
        if (const auto failure =
                logs.write(learner, line, evaluation_text(parts_.trainer.steps_done(), numbers),
                           is_last ? generate(learner) : std::vector<TextSample>()))
            return *failure;
    }
    share_metric(learner, metric);
    return all;
}

namespace {

EvaluationNumbers mean_of(const std::vector<EvaluationNumbers>& all) {
    EvaluationNumbers means{.names = all.front().names};
    const auto count = static_cast<double>(all.size());
    for (const EvaluationNumbers& one : all) {
        means.loss += one.loss / count;
        means.entropy += one.entropy / count;
        means.accuracy += one.accuracy / count;
        means.rows += one.rows;
        means.batches += one.batches;
        means.seconds += one.seconds;
    }
    return means;
}

}  // namespace

comm::Agreed<bool> Evaluations::run(const std::vector<size_t>& learners, Log& log,
                                    LearnerLogs& logs) {
    if (learners.empty()) return false;
    last_.clear();
    std::vector<int64_t> found(1 + learners.size());  // better ones; then those that stop
    for (size_t i = 0; i < learners.size(); ++i) {
        const auto numbers = run_sets(learners[i], logs, found.front());
        if (!numbers) return numbers.failure();
        last_.insert(last_.end(), numbers.value().begin(), numbers.value().end());
        const Standing& standing = standings_[learners[i]];
        found[1 + i] = parts_.world.is_root() && standing.early_stopping.asks_to_stop() ? 1 : 0;
    }
    if (logs.has_own(learners.front())) {
        last_ = {mean_of(last_)};
        const int64_t step = parts_.trainer.steps_done();
        if (const auto failure =
                log.write(evaluation_line(step, parts_.trainer.epochs_done(),
                                          parts_.trainer.progress().num_tokens(), last_.front()),
                          evaluation_text(step, last_.front())))
            return *failure;
    }
    found = parts_.world.maximum(std::move(found));
    for (size_t i = 0; i < learners.size(); ++i) {
        const Learner& learner = parts_.trainer.learners()[learners[i]];
        if (found[1 + i] == 0 || learner.num_steps() == parts_.trainer.steps_done()) continue;
        say_stop(learners[i], log);
        parts_.trainer.end_early(learners[i]);
    }
    return found.front() > 0;
}

std::vector<EvaluationNumbers> Evaluations::predict() const {
    std::vector<EvaluationNumbers> all;
    for (const Evaluator& evaluator : parts_.evaluators) all.push_back(evaluate(evaluator));
    return all;
}

TrainerState state_of(const Learner& learner, const Evaluations::Standing& standing,
                      const config::Config& config, int64_t step,
                      const std::filesystem::path& output_dir) {
    config::Config own = config;
    own.training = learner.settings();
    return {learner.num_epochs(),
            own.training.per_device_train_batch_size,
            EventSchedule(own, learner.planned_steps()),
            learner.planned_steps(),
            step,
            asks_for_best(own),
            standing.best,
            standing.early_stopping,
            std::nullopt,
            output_dir};
}

}  // namespace ringshard::train
