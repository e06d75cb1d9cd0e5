#include "checkpoint_manager.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "ringshard/checkpoint/manifest.hpp"

namespace ringshard::train {

double expected_save_seconds(const shard::Zero& zero, const comm::Group& world) {
    constexpr double bytes_per_element = 12;
    constexpr double bytes_per_second = 0.5e9;  // of a host
    const int64_t hosts = world.sum(world.split_by_host().is_root() ? 1 : 0);
    double elements = 0;
    for (const shard::FlatUnit& unit : zero.units())
        if (unit.is_trained()) elements += static_cast<double>(unit.size());
    return elements * bytes_per_element / (bytes_per_second * static_cast<double>(hosts));
}

CheckpointManager::CheckpointManager(Parts parts, Log& log, Requests& requests)
    : parts_(std::move(parts)),
      neighbours_(parts_.world.split_by_host()),
      log_(log),
      requests_(requests) {}

// Room for the copies of all ranks of this host, and on every host. Collective over the world.
bool CheckpointManager::copy_fits(checkpoint::Contents contents) {
    const int64_t missing =
        parts_.saver.bytes_to_set_aside(parts_.zero, parts_.optimizer, contents);
    const int64_t missing_here = neighbours_.sum(missing);
    constexpr double usable = 0.9;  // of the free memory: training needs more as it goes on
    const auto free = static_cast<double>(neighbours_.minimum(parts_.free_host_memory()));
    const bool fits = static_cast<double>(missing_here) <= usable * free;
    const bool fits_everywhere = parts_.world.all(missing_here == 0 || fits);
    if (!fits_everywhere)
        log_.say(format_text(
            "note: a copy of the state does not fit into the memory of every host ({} beside {} "
            "that are free here): this checkpoint is written in parts, and training waits for it",
            human_bytes(static_cast<double>(missing_here)), human_bytes(free)));
    return fits_everywhere;
}

std::optional<comm::AgreedFailure> CheckpointManager::wait_for_previous(int64_t step) {
    if (parts_.saver.is_under_way() && !parts_.saver.is_done())
        log_.say(
            "note: the save before this one is still under way, and training waits for it; with "
            "fewer saves it would not");
    return wait(step);
}

std::optional<comm::AgreedFailure> CheckpointManager::start(const Timer& stall,
                                                            const checkpoint::Progress& progress,
                                                            checkpoint::Contents contents,
                                                            const checkpoint::Extras& extras) {
    if (const auto failure = wait_for_previous(progress.step)) return failure;
    const bool copies = copy_fits(contents);
    parts_.saver.start(progress, parts_.zero, parts_.optimizer, contents, extras,
                       parts_.settings.save_total_limit, copies);
    stall_ = stall.seconds();
    requests_.record_stall(stall_);
    return copies ? std::nullopt : wait(progress.step);
}

std::optional<comm::AgreedFailure> CheckpointManager::report_finished(double done_on_ranks,
                                                                      int64_t step) {
    const bool is_done = done_on_ranks >= static_cast<double>(parts_.world.size());
    return is_done ? wait(step) : std::nullopt;
}

std::optional<comm::AgreedFailure> CheckpointManager::wait(int64_t step) {
    if (!parts_.saver.is_under_way()) return std::nullopt;
    const checkpoint::SaveOutcome outcome = parts_.saver.wait();
    requests_.record_save(stall_ + outcome.seconds);
    return report(outcome, step);
}

std::optional<comm::AgreedFailure> CheckpointManager::report(const checkpoint::SaveOutcome& outcome,
                                                             int64_t step) {
    for (const std::string& warning : outcome.warnings) log_.say("warning: " + warning);
    failed_in_a_row_ = outcome.failure ? failed_in_a_row_ + 1 : 0;
    MetricsLine line{{"step", step},
                     {"save_step", outcome.step},
                     {"save_stall_s", stall_},
                     {"save_s", outcome.seconds},
                     {"save_bytes", outcome.bytes},
                     {"failed_saves", failed_in_a_row_}};
    if (!outcome.failure) return log_.write(line, {});
    // Training continues after an error of the disk alone, not after a NaN or a newer attempt.
    if (outcome.failure->code() != ExitCode::io) return outcome.failure;
    const int64_t most = parts_.settings.max_failed_saves;
    const std::string what =
        format_text("the save of step {} failed: {}", outcome.step, outcome.failure->message());
    if (const auto failure = log_.write(
            line,
            format_text(
                "warning: {}; training goes on, and the run ends if {} in a row fail ({} so far)",
                what, most, failed_in_a_row_)))
        return failure;
    if (failed_in_a_row_ < most) return std::nullopt;
    return comm::found_by_all(
        {ExitCode::io, format_text("max_failed_saves = {}: so many saves failed in a row; {}. Make "
                                   "room in output_dir, or name another one",
                                   most, what)});
}

}  // namespace ringshard::train
