#include "ringshard/job/deadline.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "output_of.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::job {

std::optional<double> read_time_left(std::string_view text) {
    int64_t days = 0;
    if (const size_t dash = text.find('-'); dash != std::string_view::npos) {
        const auto number = read_whole_number(text.substr(0, dash));
        if (!number) return std::nullopt;
        days = *number;
        text.remove_prefix(dash + 1);
    }
    int64_t seconds = 0;
    for (const std::string& part : split(text, ':')) {
        const auto number = read_whole_number(part);
        if (!number) return std::nullopt;
        seconds = seconds * 60 + *number;
    }
    return static_cast<double>(days * 86400 + seconds);
}

Deadline::Deadline(const Slurm& slurm, std::optional<double> max_hours) {
    constexpr double seconds_per_hour = 3600;
    if (max_hours) end_of_patience_ = *max_hours * seconds_per_hour;
    if (slurm.name_in_queue.empty()) return;
    if (slurm.end_time) {
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        end_of_job_ =
            static_cast<double>(*slurm.end_time) - std::chrono::duration<double>(now).count();
    }
    asking_ = std::jthread(
        [this, job = slurm.name_in_queue](const std::stop_token& stop) { keep_asking(stop, job); });
}

void Deadline::keep_asking(const std::stop_token& stop, const std::string& job) {
    constexpr auto pause = std::chrono::minutes(3);
    std::mutex mutex;
    std::condition_variable_any never_notified;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
        // If squeue does not answer (not installed, or no controller), keep the end that is known.
        const auto answer = output_of({"squeue", "--noheader", "--jobs", job, "-o", "%L"}, stop);
        if (answer) {
            const std::string text(trim(*answer));
            if (const auto left = read_time_left(text))
                end_of_job_ = clock_.seconds() + *left;
            else if (text == "UNLIMITED")
                end_of_job_ = never;
        }
        never_notified.wait_for(lock, stop, pause, [] { return false; });
    }
}

std::optional<double> Deadline::seconds_left() const {
    const double end = std::min(end_of_job_.load(), end_of_patience_);
    return end == never ? std::nullopt : std::optional(end - clock_.seconds());
}

}  // namespace ringshard::job
