#include "evaluations.hpp"

#include "event_schedule.hpp"
#include "summary.hpp"

namespace ringshard::train {

bool Evaluations::take(const MetricsLine& line) {
    early_stopping_.take(line, best_);
    return best_.consider(line);
}

void Evaluations::share_end() {
    const bool stops = parts_.world.is_root() && early_stopping_.asks_to_stop();
    stops_early_ = parts_.world.maximum(stops ? 1 : 0) == 1;
}

EvaluationNumbers Evaluations::evaluate(const Evaluator& evaluator) const {
    parts_.world.flight_recorder().set_activity("evaluating");
    parts_.faults.reach("evaluate");
    const EvaluationNumbers numbers = evaluator.evaluate([this](double operations) {
        parts_.watchdog.begin(watch::Work::evaluation);
        parts_.watchdog.expect(operations);
    });
    parts_.watchdog.begin(watch::Work::other);
    return numbers;
}

std::vector<size_t> Evaluations::due_adapters(const StepNumbers& numbers) const {
    std::vector<size_t> due;
    for (size_t adapter = 0; adapter < numbers.adapters.size(); ++adapter) {
        const StepNumbers& mine = numbers.adapters[adapter];
        if (mine.step == 0) continue;  // it has ended
        const EventSchedule events(parts_.config, parts_.trainer.num_steps_of(adapter));
        const bool ends_epoch = parts_.trainer.is_at_epoch_end_of(adapter);
        if (events.after(mine.step, mine.epoch, ends_epoch).evaluate) due.push_back(adapter);
    }
    return due;
}

std::optional<comm::AgreedFailure> Evaluations::run_adapters(const std::vector<size_t>& adapters,
                                                             Log& log, AdapterLogs& logs) {
    if (adapters.empty()) return std::nullopt;
    EvaluationNumbers means;
    const auto count = static_cast<double>(adapters.size());
    for (const size_t adapter : adapters) {
        const EvaluationNumbers mine = evaluate(parts_.evaluators[adapter]);
        if (const auto failure = logs.write_evaluation(adapter, mine)) return failure;
        means.loss += mine.loss / count;
        means.entropy += mine.entropy / count;
        means.accuracy += mine.accuracy / count;
        means.rows += mine.rows;
        means.batches += mine.batches;
        means.seconds += mine.seconds;
    }
    last_ = means;
    const checkpoint::Progress& progress = parts_.trainer.progress();
    return log.write(
        evaluation_line(progress.step, parts_.trainer.epochs_done(), progress.num_tokens, means),
        evaluation_text(progress.step, means));
}

comm::Agreed<bool> Evaluations::run(Log& log) {
    last_ = evaluate(parts_.evaluators.front());
    const checkpoint::Progress& progress = parts_.trainer.progress();
    const MetricsLine line =
        evaluation_line(progress.step, parts_.trainer.epochs_done(), progress.num_tokens, *last_);
    std::vector<int64_t> found{0, 0};
    if (parts_.world.is_root()) {
        found[0] = take(line) ? 1 : 0;
        found[1] = early_stopping_.asks_to_stop() ? 1 : 0;
    }
    found = parts_.world.maximum(std::move(found));
    stops_early_ = found[1] == 1;
    std::vector<TextSample> samples;
    if (parts_.generator != nullptr) {
        parts_.world.flight_recorder().set_activity("generating texts");
        samples = parts_.generator->generate();
    }
    if (const auto failure = log.write(line, evaluation_text(progress.step, *last_), samples))
        return *failure;
    if (stops_early_)
        log.say(
            format_text("early stopping after step {} of {}: early_stopping_patience is {}, and {} "
                        "was not better than before for as many evaluations",
                        progress.step, parts_.trainer.num_steps(), *early_stopping_.patience(),
                        best_.metric()));
    return found[0] == 1;
}

}  // namespace ringshard::train
