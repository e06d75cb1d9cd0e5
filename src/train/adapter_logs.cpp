#include "adapter_logs.hpp"

#include <iostream>

#include "ringshard/base/wall_clock.hpp"
#include "trainer_state.hpp"

namespace ringshard::train {

AdapterLogs::AdapterLogs(const Trainer& trainer, const comm::Group& world,
                         const checkpoint::Store& store)
    : trainer_(trainer), world_(world) {
    for (size_t number = 0; number < trainer.num_adapters(); ++number) {
        const std::filesystem::path folder = store.output_dir() / trainer.name_of(number);
        adapters_.push_back({folder, MetricsFile(store.claim(), folder), LogHistory(folder)});
    }
}

std::optional<Failure> AdapterLogs::read_lines(
    size_t number, const std::filesystem::path& checkpoint,
    const std::function<void(size_t, const MetricsLine&)>& show) {
    OfAdapter& adapter = adapters_[number];
    std::error_code error;
    std::filesystem::create_directories(adapter.folder, error);
    if (error)
        return Failure{ExitCode::io, format_text("{} cannot be made: {}", adapter.folder.string(),
                                                 error.message())};
    if (!checkpoint.empty()) {
        const auto warning =
            adapter.file.restore(checkpoint / state_file(trainer_.name_of(number)));
        if (!warning) return warning.failure();
        if (!warning.value().empty()) std::cerr << "warning: " << warning.value() << '\n';
    }
    return adapter.file.clean([&](const MetricsLine& line) {
        adapter.history.add(line);
        show(number, line);
    });
}

std::optional<comm::AgreedFailure> AdapterLogs::begin(
    const std::filesystem::path& checkpoint,
    const std::function<void(size_t, const MetricsLine&)>& show) {
    if (adapters_.empty()) return std::nullopt;
    std::optional<Failure> failure;
    for (size_t number = 0; number < adapters_.size() && world_.is_root() && !failure; ++number) {
        failure = read_lines(number, checkpoint, show);
        OfAdapter& adapter = adapters_[number];
        adapter.totals.before =
            trainer_.progress().adapters[number].sums.value_or(adapter.history.sums());
        adapter.operations = adapter.totals.before.operations;
    }
    return comm::first_failure(world_, failure);
}

void AdapterLogs::add(const StepNumbers& numbers) {
    for (size_t number = 0; number < adapters_.size(); ++number) {
        const StepNumbers& mine = numbers.adapters[number];
        if (mine.step == 0) continue;  // it has ended
        OfAdapter& adapter = adapters_[number];
        adapter.window.add(mine);
        adapter.totals.add(mine);
        adapter.epoch = mine.epoch;
        adapter.operations += mine.operations;
        if (!world_.is_root() || !mine.is_skipped()) continue;
        if (const std::string warning = adapter.skips.warning_of(mine); !warning.empty())
            std::cerr << warning << '\n';
    }
}

std::optional<Failure> AdapterLogs::record(OfAdapter& adapter, MetricsLine line,
                                           const std::vector<TextSample>& samples) {
    line.emplace_back("time", seconds_since_1970());
    auto appended = adapter.file.append(line, samples);
    if (appended.failure) return appended.failure;
    adapter.history.add(line);
    if (!appended.warning.empty()) std::cerr << "warning: " << appended.warning << '\n';
    return std::nullopt;
}

std::optional<Failure> AdapterLogs::record_steps(OfAdapter& adapter, const Usage& usage) {
    if (adapter.window.is_empty()) return std::nullopt;
    MetricsLine line = step_line(adapter.window.take(), usage);
    line.emplace_back("total_flos", adapter.operations);
    return world_.is_root() ? record(adapter, line) : std::nullopt;
}

std::optional<comm::AgreedFailure> AdapterLogs::write_steps(const std::vector<size_t>& adapters,
                                                            const Usage& usage) {
    if (adapters.empty()) return std::nullopt;
    std::optional<Failure> failure;
    for (const size_t adapter : adapters)
        if (auto mine = record_steps(adapters_[adapter], usage); !failure)
            failure = std::move(mine);
    return comm::first_failure(world_, failure);
}

MetricsLine AdapterLogs::line_of(size_t number, const EvaluationNumbers& numbers) const {
    const checkpoint::Progress& progress = trainer_.progress();
    return evaluation_line(progress.step, adapters_[number].epoch,
                           progress.adapters[number].num_tokens, numbers);
}

std::optional<comm::AgreedFailure> AdapterLogs::write(size_t number, const MetricsLine& line,
                                                      const std::vector<TextSample>& samples) {
    std::optional<Failure> failure;
    if (world_.is_root()) failure = record(adapters_[number], line, samples);
    return comm::first_failure(world_, failure);
}

std::optional<comm::AgreedFailure> AdapterLogs::write_end(size_t number) {
    OfAdapter& adapter = adapters_[number];
    std::optional<Failure> failure;
    if (world_.is_root()) {
        MetricsLine last = adapter.totals.end_line(trainer_.num_steps_of(number), adapter.epoch);
        last.emplace_back("total_flos", adapter.operations);
        failure = record(adapter, last);
        if (!failure) failure = adapter.file.write_kept();
    }
    return comm::first_failure(world_, failure);
}

LogHistory::View AdapterLogs::state(size_t number) const {
    const OfAdapter& adapter = adapters_[number];
    LogHistory::View history = adapter.history.view();
    history.epoch = trainer_.epochs_done_of(number);
    history.num_tokens = trainer_.progress().adapters[number].num_tokens;
    history.total_flos = adapter.operations;
    return history;
}

std::map<std::string, LogHistory::View> AdapterLogs::histories() const {
    std::map<std::string, LogHistory::View> all;
    for (size_t number = 0; number < adapters_.size(); ++number)
        all[trainer_.name_of(number)] = state(number);
    return all;
}

std::vector<size_t> AdapterLogs::cut_off_at(int64_t step) const {
    std::vector<int64_t> is_cut_off(adapters_.size());
    for (size_t number = 0; number < adapters_.size(); ++number) {
        const int64_t end = trainer_.num_steps_of(number);
        const bool lacks_end = world_.is_root() && !adapters_[number].history.has_end_at(end);
        is_cut_off[number] = end <= step && lacks_end ? 1 : 0;
    }
    std::vector<size_t> found;
    if (is_cut_off.empty()) return found;
    is_cut_off = world_.maximum(std::move(is_cut_off));
    for (size_t number = 0; number < is_cut_off.size(); ++number)
        if (is_cut_off[number] == 1) found.push_back(number);
    return found;
}

}  // namespace ringshard::train
