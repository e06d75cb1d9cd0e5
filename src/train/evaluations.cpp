#include "evaluations.hpp"

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

comm::Agreed<bool> Evaluations::run(Log& log) {
    parts_.world.flight_recorder().set_activity("evaluating");
    parts_.faults.reach("evaluate");
    last_ = parts_.evaluator->evaluate([this](double operations) {
        parts_.watchdog.begin(watch::Work::evaluation);
        parts_.watchdog.expect(operations);
    });
    parts_.watchdog.begin(watch::Work::other);
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
        log.say(concat("early stopping after step ", progress.step, " of ",
                       parts_.trainer.num_steps(), ": early_stopping_patience is ",
                       *early_stopping_.patience(), ", and ", best_.metric(),
                       " was not better than before for as many evaluations"));
    return found[0] == 1;
}

}  // namespace ringshard::train
