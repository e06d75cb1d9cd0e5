#include "learner_logs.hpp"

#include "trainer_state.hpp"

namespace ringshard::train {

LearnerLogs::LearnerLogs(const Trainer& trainer, const comm::Group& world,
                         const checkpoint::Store& store, Log& of_run)
    : trainer_(trainer), world_(world), output_dir_(store.output_dir()), of_run_(of_run) {
    for (size_t learner = 0; learner < trainer.learners().size(); ++learner) {
        if (trainer.learners()[learner].name().empty()) continue;
        own_.emplace(learner, MetricsLog(store.claim(), folder(learner),
                                         trainer.learners()[learner].progress().sums,
                                         [this](const std::string& text) { of_run_.say(text); }));
    }
}

std::filesystem::path LearnerLogs::folder(size_t learner) const {
    const std::string& name = trainer_.learners()[learner].name();
    return name.empty() ? output_dir_ : output_dir_ / name;
}

void LearnerLogs::show_line_of_run(const MetricsLine& line, const Show& show) const {
    for (size_t learner = 0; learner < trainer_.learners().size(); ++learner)
        if (!has_own(learner)) show(learner, line);
}

std::optional<Failure> LearnerLogs::read_lines(size_t learner,
                                               const std::filesystem::path& checkpoint,
                                               const Show& show) {
    std::error_code error;
    std::filesystem::create_directories(folder(learner), error);
    if (error)
        return Failure{ExitCode::io, format_text("{} cannot be made: {}", folder(learner).string(),
                                                 error.message())};
    const auto state = state_file(trainer_.learners()[learner].name());
    return own_.at(learner).read_lines(checkpoint.empty() ? checkpoint : checkpoint / state,
                                       [&](const MetricsLine& line) { show(learner, line); });
}

std::optional<comm::AgreedFailure> LearnerLogs::begin(const std::filesystem::path& checkpoint,
                                                      const Show& show) {
    if (own_.empty()) return std::nullopt;
    std::optional<Failure> failure;
    for (auto& [learner, own] : own_) {
        if (world_.is_root() && !failure) failure = read_lines(learner, checkpoint, show);
        own.begin();
    }
    return comm::first_failure(world_, failure);
}

void LearnerLogs::add(const StepNumbers& numbers) {
    for (auto& [learner, own] : own_) {
        const StepNumbers& mine = numbers.learners[learner];
        if (mine.step > 0) own.add(mine);  // else it has ended
    }
}

std::optional<comm::AgreedFailure> LearnerLogs::write_steps(const std::vector<size_t>& learners) {
    if (own_.empty() || learners.empty()) return std::nullopt;
    std::optional<Failure> failure;
    for (const size_t learner : learners) {
        MetricsLog& own = own_.at(learner);
        const auto steps = own.take_steps();
        if (!steps || !world_.is_root()) continue;
        MetricsLine line = own.line_of(*steps, of_run_.usage());
        if (auto mine = own.record(line); !failure) failure = std::move(mine);
    }
    return comm::first_failure(world_, failure);
}

MetricsLine LearnerLogs::line_of(size_t number, const EvaluationNumbers& numbers) const {
    const Learner& learner = trainer_.learners()[number];
    return evaluation_line(trainer_.steps_done(), learner.epochs_done(),
                           learner.progress().num_tokens, numbers);
}

std::optional<comm::AgreedFailure> LearnerLogs::write(size_t learner, MetricsLine line,
                                                      const std::string& shown,
                                                      const std::vector<TextSample>& samples) {
    if (!has_own(learner)) return of_run_.write(line, shown, samples);
    std::optional<Failure> failure;
    if (world_.is_root()) failure = own_.at(learner).record(line, samples);
    return comm::first_failure(world_, failure);
}

std::optional<comm::AgreedFailure> LearnerLogs::write_end(size_t number) {
    const Learner& learner = trainer_.learners()[number];
    MetricsLog& own = own_.at(number);
    std::optional<Failure> failure;
    if (world_.is_root()) {
        MetricsLine last = own.end_line(learner.num_steps(), learner.epochs_done());
        failure = own.record(last);
        if (!failure) failure = own.write_kept();
    }
    return comm::first_failure(world_, failure);
}

LogHistory::View LearnerLogs::state(size_t number) const {
    const Learner& learner = trainer_.learners()[number];
    return own_.at(number).view(learner.epochs_done(), learner.progress().num_tokens);
}

std::vector<size_t> LearnerLogs::cut_off_at(int64_t step) const {
    const std::vector<Learner>& learners = trainer_.learners();
    std::vector<int64_t> is_cut_off(learners.size());
    for (size_t learner = 0; learner < learners.size(); ++learner) {
        const LogHistory& history =
            (has_own(learner) ? own_.at(learner) : of_run_.metrics()).history();
        const int64_t end = learners[learner].num_steps();
        is_cut_off[learner] = end <= step && world_.is_root() && !history.has_end_at(end) ? 1 : 0;
    }
    is_cut_off = world_.maximum(std::move(is_cut_off));
    std::vector<size_t> found;
    for (size_t learner = 0; learner < is_cut_off.size(); ++learner)
        if (is_cut_off[learner] == 1) found.push_back(learner);
    return found;
}

}  // namespace ringshard::train
