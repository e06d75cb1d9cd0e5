#include "evaluations.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "ringshard/config/evaluation_sets.hpp"
#include "summary.hpp"

namespace ringshard::train {

Evaluations::Evaluations(const RunParts& parts)
    : parts_(parts),
      of_model_(parts.config.evaluation),
      of_adapters_(parts.trainer.num_adapters(), of_model_) {
    const auto sets = config::evaluation_sets(parts.config.data.eval_dataset_name);
    for (const config::EvaluationSet& set : sets.value()) names_.push_back(set.name);
}

void Evaluations::share_end() {
    const bool stops = parts_.world.is_root() && of_model_.early_stopping.asks_to_stop();
    stops_early_ = parts_.world.maximum(stops ? 1 : 0) == 1;
}

std::vector<BestModel> Evaluations::all_best() const {
    if (of_adapters_.empty()) return {of_model_.best};
    std::vector<BestModel> all;
    for (const Standing& standing : of_adapters_) all.push_back(standing.best);
    return all;
}

void Evaluations::say_stop(const std::string& what, int64_t num_steps, const Standing& standing,
                           Log& log) const {
    log.say(
        format_text("{}early stopping after step {} of {}: early_stopping_patience is {}, and {} "
                    "was not better than before for as many evaluations",
                    what, parts_.trainer.progress().step, num_steps,
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

void Evaluations::share_metric(size_t curve, double value) const {
    if (!parts_.trainer.follows_evaluations(curve) || parts_.trainer.progress().step == 0) return;
    auto bytes = std::bit_cast<std::array<char, sizeof(double)>>(value);
    const std::string sent = parts_.world.broadcast(std::string(bytes.begin(), bytes.end()));
    std::ranges::copy_n(sent.begin(), std::ssize(bytes), bytes.begin());
    parts_.trainer.take_metric(curve, std::bit_cast<double>(bytes));
}

std::vector<TextSample> Evaluations::generate(std::optional<size_t> adapter) const {
    if (parts_.generator == nullptr) return {};
    parts_.world.flight_recorder().set_activity("generating texts");
    parts_.optimizer.begin_evaluation(parts_.zero);
    return parts_.generator->generate(adapter);
}

comm::Agreed<bool> Evaluations::run_adapters(const std::vector<size_t>& adapters, Log& log,
                                             AdapterLogs& logs) {
    if (adapters.empty()) return false;
    EvaluationNumbers means;
    const auto count = static_cast<double>(adapters.size());
    std::vector<int64_t> found(1 + adapters.size());  // a better one; then those that stop
    for (size_t i = 0; i < adapters.size(); ++i) {
        const size_t adapter = adapters[i];
        const EvaluationNumbers mine = evaluate(parts_.evaluators[adapter]);
        const MetricsLine line = logs.line_of(adapter, mine);
        if (parts_.world.is_root()) {
            if (take(adapter, line)) found.front() = 1;
            found[1 + i] = of_adapters_[adapter].early_stopping.asks_to_stop() ? 1 : 0;
        }
        share_metric(adapter, number_in(line, of_adapters_[adapter].best.metric()));
        if (const auto failure = logs.write(adapter, line, generate(adapter))) return *failure;
        means.loss += mine.loss / count;
        means.entropy += mine.entropy / count;
        means.accuracy += mine.accuracy / count;
        means.rows += mine.rows;
        means.batches += mine.batches;
        means.seconds += mine.seconds;
    }
    last_ = {means};
    const checkpoint::Progress& progress = parts_.trainer.progress();
    if (const auto failure = log.write(evaluation_line(progress.step, parts_.trainer.epochs_done(),
                                                       progress.num_tokens, means),
                                       evaluation_text(progress.step, means)))
        return *failure;
    found = parts_.world.maximum(std::move(found));
    for (size_t i = 0; i < adapters.size(); ++i) {
        const int64_t num_steps = parts_.trainer.num_steps_of(adapters[i]);
        if (found[1 + i] == 0 || num_steps == progress.step) continue;
        say_stop(format_text("adapter {}: ", parts_.trainer.name_of(adapters[i])), num_steps,
                 of_adapters_[adapters[i]], log);
        parts_.trainer.end_early(adapters[i]);
        stops_early_ = parts_.trainer.num_steps() == progress.step;
    }
    return found.front() == 1;
}

std::vector<EvaluationNumbers> Evaluations::predict() const {
    std::vector<EvaluationNumbers> all;
    for (size_t set = 0; set < parts_.evaluators.size(); ++set) {
        EvaluationNumbers& numbers = all.emplace_back(evaluate(parts_.evaluators[set]));
        if (set < names_.size()) numbers.set = names_[set];
    }
    return all;
}

comm::Agreed<bool> Evaluations::run(Log& log) {
    const checkpoint::Progress& progress = parts_.trainer.progress();
    std::vector<int64_t> found{0, 0};
    last_.clear();
    double metric = std::nan("");  // of the set that has it
    for (size_t set = 0; set < parts_.evaluators.size(); ++set) {
        EvaluationNumbers& numbers = last_.emplace_back(evaluate(parts_.evaluators[set]));
        if (set < names_.size()) numbers.set = names_[set];
        const MetricsLine line = evaluation_line(progress.step, parts_.trainer.epochs_done(),
                                                 progress.num_tokens, numbers);
        if (parts_.world.is_root() && take(line)) found[0] = 1;
        if (const double value = number_in(line, of_model_.best.metric()); !std::isnan(value))
            metric = value;
        const bool is_last = set + 1 == parts_.evaluators.size();
        if (const auto failure = log.write(line, evaluation_text(progress.step, numbers),
                                           is_last ? generate() : std::vector<TextSample>()))
            return *failure;
    }
    share_metric(0, metric);
    if (parts_.world.is_root()) found[1] = of_model_.early_stopping.asks_to_stop() ? 1 : 0;
    found = parts_.world.maximum(std::move(found));
    stops_early_ = found[1] == 1;
    if (stops_early_) say_stop("", parts_.trainer.num_steps(), of_model_, log);
    return found[0] == 1;
}

}  // namespace ringshard::train
