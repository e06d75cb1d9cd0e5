#include "requests.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "ringshard/base/files.hpp"
#include "ringshard/job/stop_signals.hpp"

namespace ringshard::train {

namespace {

// Returns an average that follows a larger value at once and a smaller one slowly.
double slow_of(double before, double now) { return std::max(now, 0.9 * before + 0.1 * now); }

}  // namespace

Requests::Requests(checkpoint::Claim claim, const job::Deadline& deadline, double saving,
                   const comm::Group& world)
    : claim_(std::move(claim)),
      deadline_(deadline),
      looks_at_files_(world.is_root()),
      expected_save_(saving) {
    if (looks_at_files_) std::remove((claim_.output_dir / "stopped").c_str());
    job::note_warnings();
    job::note_ends(looks_at_files_);
}

bool Requests::is_time_up() {
    const double now = clock_.seconds();
    step_seconds_ = slow_of(step_seconds_, now - looked_at_ - saved_since_);
    looked_at_ = now;
    saved_since_ = 0;
    constexpr double for_the_way_out = 15;
    const auto left = deadline_.seconds_left();
    return left &&
           *left < 2 * step_seconds_ + 2 * save_seconds_.value_or(expected_save_) + for_the_way_out;
}

bool Requests::is_superseded() {
    constexpr double seconds_between = 10;
    if (clock_.seconds() < asked_for_owner_at_ + seconds_between) return false;
    asked_for_owner_at_ = clock_.seconds();
    return checkpoint::check_newest(claim_).has_value();
}

void Requests::record_save(double seconds) {
    save_seconds_ = slow_of(save_seconds_.value_or(seconds), seconds);
}

ControlFlags Requests::look() {
    ControlFlags found;
    const std::string signal = job::noted_signal();
    if (!signal.empty()) (signal == "SIGUSR1" ? found.warning_signal : found.end_signal) = 1;
    if (!looks_at_files_) return found;
    found.time_limit = is_time_up() ? 1 : 0;
    found.newer_attempt = is_superseded() ? 1 : 0;
    const auto stop = claim_.output_dir / "stop-now";
    const auto save = claim_.output_dir / "save-now";
    if (file_exists(save)) {
        std::remove(save.c_str());
        found.save_file = 1;
    }
    if (file_exists(stop)) {
        std::rename(stop.c_str(), (claim_.output_dir / "stopped").c_str());
        found.stop_file = 1;
    }
    return found;
}

void Requests::restore_files(const ControlFlags& sum) const {
    if (!looks_at_files_) return;
    const std::filesystem::path& folder = claim_.output_dir;
    if (sum.stop_file > 0) std::rename((folder / "stopped").c_str(), (folder / "stop-now").c_str());
    if (sum.save_file > 0) std::ofstream(folder / "save-now");
}

Requests::Answer Requests::read(const ControlFlags& sum) {
    Answer answer;
    answer.wants_save = sum.save_file > 0;
    answer.is_superseded = sum.newer_attempt > 0;
    if (sum.stop_file > 0) answer.stop_by = "stop-now";
    if (sum.time_limit > 0) answer.stop_by = "the time limit that is near";
    if (sum.warning_signal > 0) answer.stop_by = "SIGUSR1";
    if (sum.end_signal > 0) answer.stop_by = "SIGTERM or SIGINT";
    return answer;
}

}  // namespace ringshard::train
