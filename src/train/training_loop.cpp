#include "ringshard/train/training_loop.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "checkpoint_manager.hpp"
#include "component.hpp"
#include "dues.hpp"
#include "end_learner.hpp"
#include "evaluations.hpp"
#include "event_schedule.hpp"
#include "learner_logs.hpp"
#include "load_best.hpp"
#include "log.hpp"
#include "requests.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/data/reference_rows.hpp"
#include "ringshard/device/device.hpp"
#include "summary.hpp"
#include "trainer_state.hpp"

namespace ringshard::train {

namespace {

using MaybeFailure = std::optional<comm::AgreedFailure>;

// The work of a run around its steps: events, saves, evaluations, metrics. All functions are
// collective over the world.
class Run {
public:
    explicit Run(RunParts parts)
        : parts_(std::move(parts)),
          events_(parts_.config, parts_.trainer.planned_steps()),
          evaluations_(parts_),
          requests_(parts_.store.claim(), parts_.deadline,
                    expected_save_seconds(parts_.zero, parts_.world), parts_.world),
          log_(parts_.config.logging, parts_.world, parts_.store, parts_.tracked_run,
               parts_.trainer.progress(), parts_.trainer.num_steps()),
          learner_logs_(parts_.trainer, parts_.world, parts_.store, log_),
          checkpoints_({parts_.config.checkpoint, parts_.world, parts_.saver, parts_.zero,
                        parts_.optimizer, parts_.free_host_memory},
                       log_, requests_),
          components_(make_components(parts_, log_)) {}

    MaybeFailure begin();
    comm::Agreed<StepNumbers> next_step();
    bool is_complete();
    bool has_steps_left() const { return step() < parts_.trainer.num_steps(); }
    MaybeFailure confirm_complete();
    MaybeFailure after_step(const StepNumbers& numbers);
    MaybeFailure leave_for_rewind(const StepNumbers& numbers);
    MaybeFailure end();
    MaybeFailure predict();
    void end_hooks(const comm::Agreed<Ending>& ending);

private:
    MemoryByKind memory() const;
    std::vector<size_t> all_learners() const;
    bool is_last_step_of_a_learner() const {
        return std::ranges::any_of(parts_.trainer.learners(), [this](const Learner& learner) {
            return learner.num_steps() == step();
        });
    }
    int64_t step() const { return parts_.trainer.steps_done(); }
    std::function<checkpoint::SaveNotes()> notes_maker(std::optional<int64_t> coming) const;
    MaybeFailure write_lines(const Dues& due);
    MaybeFailure stop_or_save(const ControlFlags& flags, const Due& due, bool found_best);
    MaybeFailure start_save(checkpoint::Contents contents);
    MaybeFailure save_for_good();
    MaybeFailure write_state() const;
    MaybeFailure end_learners(const StepNumbers& numbers);
    MaybeFailure end_learner(size_t learner);
    std::string result() const;

    RunParts parts_;
    EventSchedule events_;
    Evaluations evaluations_;
    Requests requests_;
    Log log_;
    LearnerLogs learner_logs_;
    CheckpointManager checkpoints_;
    std::vector<std::unique_ptr<Component>> components_;
};

MaybeFailure Run::begin() {
    const std::filesystem::path& from = parts_.resumed_from;
    const auto show = [this](size_t learner, const MetricsLine& line) {
        evaluations_.take(learner, line);
    };
    if (const auto failure = log_.begin(
            parts_.peak_operations, from.empty() ? from : from / state_file(),
            [&](const MetricsLine& line) { learner_logs_.show_line_of_run(line, show); }))
        return failure;
    if (const auto failure = learner_logs_.begin(from, show)) return failure;
    evaluations_.share_ends();
    if (parts_.config.evaluation.early_stopping_patience &&
        !parts_.config.evaluation.load_best_model_at_end && step() == 0)
        log_.say(
            "note: early_stopping_patience without load_best_model_at_end: the model that is left "
            "is that of the last step, not the best one");
    for (const auto& component : components_)
        if (const auto failure = component->begin(parts_.resumed_texts)) return failure;
    for (const size_t learner : learner_logs_.cut_off_at(step()))
        if (const auto failure = end_learner(learner)) return failure;
    if (!parts_.config.evaluation.eval_on_start || step() > 0) return std::nullopt;
    const auto found_best = evaluations_.run(all_learners(), log_, learner_logs_);
    return found_best ? std::nullopt : MaybeFailure(found_best.failure());
}

std::vector<size_t> Run::all_learners() const {
    std::vector<size_t> all(parts_.trainer.learners().size());
    std::iota(all.begin(), all.end(), size_t{0});
    return all;
}

bool Run::is_complete() {
    const bool has_end = log_.metrics().history().has_end_at(step());
    return !has_steps_left() && parts_.world.maximum(has_end ? 1 : 0) == 1;
}

// An earlier attempt wrote the last line; it may have been killed before trainer_state.json.
MaybeFailure Run::confirm_complete() {
    log_.say(format_text("step {} was the last one: this run is complete", step()));
    return write_state();
}

comm::Agreed<StepNumbers> Run::next_step() {
    parts_.crash_report.at_step(step() + 1);
    parts_.watchdog.at_step(step() + 1);
    parts_.watchdog.begin(watch::Work::step);
    parts_.world.flight_recorder().set_activity("beginning the step");
    parts_.faults.reach("step");
    for (const auto& component : components_) component->before_step(step() + 1);
    const auto look = [this] {
        parts_.faults.reach("compute");
        ControlFlags found = requests_.look();
        found.finished_save = checkpoints_.finished_flag();
        return found;
    };
    StepNumbers numbers = parts_.trainer.step(
        look, [this](double operations) { parts_.watchdog.expect(operations); });
    parts_.watchdog.begin(watch::Work::other);
    for (const auto& component : components_)
        if (numbers.is_lost())
            component->after_lost_step(step() + 1, numbers);
        else if (const auto failure = component->after_step(step(), numbers))
            return *failure;
    if (numbers.ends_run) return *numbers.ends_run;
    parts_.world.flight_recorder().set_activity("logging, evaluating or saving");
    return numbers;
}

// The newest checkpoint may be the one that is being written.
MaybeFailure Run::leave_for_rewind(const StepNumbers& numbers) {
    log_.say(
        format_text("warning: {}. on_nan = rewind: the run goes back to its newest checkpoint, and "
                    "skips this step if it goes bad again",
                    numbers.skipped_because));
    if (const auto failure = log_.write_steps(memory())) return failure;
    if (const auto failure = checkpoints_.wait(step())) return failure;
    requests_.restore_files(numbers.flags);
    return std::nullopt;
}

MaybeFailure Run::after_step(const StepNumbers& numbers) {
    log_.add(numbers);
    log_.look_after_hooks();
    learner_logs_.add(numbers);
    if (const auto failure = checkpoints_.report_finished(numbers.flags.finished_save, step()))
        return failure;
    const Dues due = dues_after(parts_.config, events_, parts_.trainer, numbers);
    if (const auto failure = write_lines(due)) return failure;
    const auto found_best = evaluations_.run(due.evaluated, log_, learner_logs_);
    if (!found_best) return found_best.failure();
    if (const auto failure = stop_or_save(numbers.flags, due.run, found_best.value()))
        return failure;
    return end_learners(numbers);
}

MaybeFailure Run::write_lines(const Dues& due) {
    if (!due.run.log) return std::nullopt;
    if (const auto failure = log_.write_steps(memory())) return failure;
    return learner_logs_.write_steps(due.logged);
}

// Saves if a save is due or asked for, and ends the run if something asks it to stop.
MaybeFailure Run::stop_or_save(const ControlFlags& flags, const Due& due, bool found_best) {
    const Requests::Answer asked = Requests::read(flags);
    if (asked.is_superseded)
        if (const auto failure = comm::first_failure(
                parts_.world, parts_.world.is_root() ? check_newest(parts_.store.claim())
                                                     : std::optional<Failure>()))
            return failure;
    const bool stops = !asked.stop_by.empty();
    if (stops && has_steps_left()) {
        if (const auto failure = save_for_good()) return failure;
        return comm::found_by_all(
            {ExitCode::stopped_early, format_text("asked to stop after step {} of {} by {}: {} is "
                                                  "whole, and the same command goes on from there",
                                                  step(), parts_.trainer.num_steps(), asked.stop_by,
                                                  checkpoint::checkpoint_name(step()))});
    }
    const bool saves_best = parts_.config.checkpoint.save_strategy == config::SaveStrategy::best;
    const bool stops_early = parts_.trainer.num_steps() < parts_.trainer.planned_steps();
    const bool is_end = is_last_step_of_a_learner() && events_.saves_last_step();
    if (due.save || (saves_best && found_best) || asked.wants_save || stops || is_end)
        return start_save(parts_.config.checkpoint.save_only_model && !stops_early
                              ? checkpoint::Contents::weights
                              : checkpoint::Contents::everything);
    return std::nullopt;
}

// Returns the peak of each kind of memory since the last line.
MemoryByKind Run::memory() const {
    const device::MemoryUse use = device::take_memory_use(parts_.zero.device());
    const bool on_host = parts_.zero.device().is_cpu();
    MemoryByKind memory = memory_by_kind(parts_.zero, parts_.optimizer, use.tensors,
                                         parts_.offload_stores.staging.bytes(),
                                         on_host ? checkpoints_.bytes_set_aside() : 0);
    memory.process_peak = use.process;
    memory.driver = use.driver;
    memory.host = on_host ? 0 : parts_.offload_stores.bytes() + checkpoints_.bytes_set_aside();
    return memory;
}

namespace {

TrainerState with_best(TrainerState state, const std::vector<int64_t>& saved_steps) {
    state.best_checkpoint = state.best.last_best_of(saved_steps);
    return state;
}

}  // namespace

// Makes trainer_state.json from the numbers as they stand now. The maker may outlive this run.
std::function<checkpoint::SaveNotes()> Run::notes_maker(std::optional<int64_t> coming) const {
    if (!parts_.world.is_root()) return {};
    const std::filesystem::path& folder = parts_.store.output_dir();
    const std::vector<Learner>& learners = parts_.trainer.learners();
    TrainerState of_run =
        state_of(learners.front(), evaluations_.of_run(), parts_.config, step(), folder);
    of_run.num_steps = parts_.trainer.planned_steps();
    of_run.events = events_;
    std::vector<std::pair<TrainerState, LogHistory::View>> states{
        {of_run, log_.metrics().view(parts_.trainer.epochs_done(),
                                     parts_.trainer.progress().num_tokens())}};
    std::vector<std::string> names{""};
    for (size_t learner = 0; learner < learners.size(); ++learner) {
        if (!learner_logs_.has_own(learner)) continue;
        names.push_back(learners[learner].name());
        states.emplace_back(
            state_of(learners[learner], evaluations_.of_learner(learner), parts_.config,
                     std::min(step(), learners[learner].num_steps()), folder),
            learner_logs_.state(learner));
    }
    return [=, keeps_best = keeps_best(parts_.config), all_best = evaluations_.all_best()] {
        checkpoint::SaveNotes notes;
        std::vector<int64_t> steps;
        if (of_run.asks_for_best) steps = saved_steps(of_run.output_dir, coming);
        if (keeps_best)
            for (const BestModel& best : all_best)
                if (const auto kept = best.last_best_of(steps)) notes.kept_steps.insert(*kept);
        const auto write = coming ? write_checkpoint_state : write_trainer_state;
        for (size_t i = 0; i < states.size(); ++i)
            notes.files[state_file(names[i])] =
                [write, history = states[i].second, state = with_best(states[i].first, steps)](
                    const std::filesystem::path& file) { return write(file, state, history); };
        return notes;
    };
}

MaybeFailure Run::write_state() const {
    std::optional<Failure> failure;
    if (parts_.world.is_root()) {
        const auto file = parts_.store.output_dir() / state_file();
        if (!is_state_after(file, step()))
            failure = notes_maker(std::nullopt)().files.at(state_file())(file);
    }
    return comm::first_failure(parts_.world, failure);
}

MaybeFailure Run::start_save(checkpoint::Contents contents) {
    const Timer stall;
    parts_.world.flight_recorder().set_activity("saving");
    parts_.extras.make_notes = notes_maker(step());
    parts_.optimizer.begin_evaluation(parts_.zero);
    auto references = parts_.compute_references();
    if (!references) return references.failure();
    parts_.extras.files.erase(data::References::file_name);
    if (!references.value().empty())
        parts_.extras.files[data::References::file_name] = std::move(references).value();
    for (const auto& component : components_) component->save(contents, parts_.extras);
    const auto failure =
        checkpoints_.start(stall, parts_.trainer.progress(), contents, parts_.extras);
    parts_.watchdog.made_progress();
    return failure;
}

// Saves all state before the run stops, since a restart needs it; tries again if the save fails.
MaybeFailure Run::save_for_good() {
    do {
        if (const auto failure = start_save(checkpoint::Contents::everything)) return failure;
        if (const auto failure = checkpoints_.wait(step())) return failure;
    } while (checkpoints_.has_failed());
    return std::nullopt;
}

// Ends the learners whose last step this was.
MaybeFailure Run::end_learners(const StepNumbers& numbers) {
    for (size_t learner = 0; learner < numbers.learners.size(); ++learner) {
        if (numbers.learners[learner].step == 0 ||
            parts_.trainer.learners()[learner].num_steps() != step())
            continue;
        if (const auto failure = end_learner(learner)) return failure;
    }
    return std::nullopt;
}

MaybeFailure Run::end_learner(size_t learner) {
    if (!has_steps_left()) log_.take_maxima(memory());
    if (const auto failure = checkpoints_.wait(step())) return failure;
    return train::end_learner(learner, {parts_, evaluations_, learner_logs_, log_});
}

std::string Run::result() const {
    std::vector<std::string> folders;
    for (const size_t learner : all_learners())
        folders.push_back(learner_logs_.folder(learner).string());
    return format_text("{}  (for {} from_pretrained)", join(folders, ", "),
                       learner_logs_.has_own(0) ? "PEFT's" : "transformers'");
}

// Writes the numbers of the result, which may be another than that of the last step.
MaybeFailure Run::predict() {
    const std::vector<EvaluationNumbers> numbers = evaluations_.predict();
    const auto file = parts_.store.output_dir() / "predict_results.json";
    std::optional<Failure> failure;
    if (parts_.world.is_root()) failure = write_file_atomically(file, predict_results(numbers));
    if (const auto agreed = comm::first_failure(parts_.world, failure)) return agreed;
    log_.say(format_text("do_predict: the result has {} {}, see {}",
                         numbers.size() == 1 ? "a loss of" : "losses of", joined_losses(numbers),
                         file.string()));
    return std::nullopt;
}

MaybeFailure Run::end() {
    parts_.world.flight_recorder().set_activity("ending the run");
    if (const auto failure = checkpoints_.wait(step())) return failure;
    if (parts_.config.evaluation.do_predict)
        if (const auto failure = predict()) return failure;
    const std::filesystem::path& folder = parts_.store.output_dir();
    if (checkpoints_.has_failed())
        return comm::found_by_all(
            {ExitCode::io,
             format_text("the save of the last step failed, as the warning above says: the model "
                         "in {} is whole, and no checkpoint is; make room there, and the same "
                         "command goes on from the checkpoint before and saves again",
                         folder.string())});
    const MetricsLog& metrics = log_.metrics();
    if (const auto failure = log_.write(metrics.end_line(step(), parts_.trainer.epochs_done()), {}))
        return failure;
    if (const auto failure = log_.end()) return failure;
    log_.say(metrics.totals().summary(step(), evaluations_.last(), log_.peak_memory_bytes(),
                                      evaluations_.of_run().best, folder, result()));
    if (parts_.config.checkpoint.push_to_hub)
        log_.say(format_text("to upload the result: {}",
                             upload_command(parts_.config.checkpoint, folder)));
    return write_state();
}

// A run that stops early has little time: the job's limit may be near.
void Run::end_hooks(const comm::Agreed<Ending>& ending) {
    if (ending && ending.value() == Ending::rewind) return;
    const ExitCode code = ending ? ExitCode::done : ending.failure().code();
    if (code != ExitCode::done && code != ExitCode::stopped_early) return;
    const double limit = parts_.config.logging.hook_timeout_s;
    parts_.world.flight_recorder().set_activity("waiting for the commands of hooks");
    log_.end_hooks(step(), number(code), code == ExitCode::done ? limit : std::min(limit, 5.0));
}

comm::Agreed<Ending> take_steps(Run& run) {
    while (run.has_steps_left()) {
        const auto numbers = run.next_step();
        if (!numbers) return numbers.failure();
        if (numbers.value().asks_to_rewind) {
            if (const auto failure = run.leave_for_rewind(numbers.value())) return *failure;
            return Ending::rewind;
        }
        if (const auto failure = run.after_step(numbers.value())) return *failure;
    }
    if (const auto failure = run.end()) return *failure;
    return Ending::complete;
}

}  // namespace

comm::Agreed<Ending> train_to_the_end(RunParts parts) {
    Run run(std::move(parts));
    if (const auto failure = run.begin()) return *failure;
    if (run.is_complete()) {
        if (const auto failure = run.confirm_complete()) return *failure;
        return Ending::complete;
    }
    auto ending = take_steps(run);
    run.end_hooks(ending);
    return ending;
}

}  // namespace ringshard::train
