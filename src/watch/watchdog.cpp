#include "ringshard/watch/watchdog.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "attempt_check.hpp"
#include "datagram_channel.hpp"
#include "diagnosis.hpp"
#include "dump.hpp"
#include "heartbeat_table.hpp"
#include "limits.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/comm/crash_report.hpp"

namespace ringshard::watch {

namespace {

// Prefixes of the messages that are not heartbeats.
constexpr std::string_view alarm = "alarm\n";            // followed by the diagnosis, one line
constexpr std::string_view answer = "answer\n";          // from a watcher, to each heartbeat
constexpr std::string_view superseded = "superseded\n";  // a newer attempt has claimed the run

// Returns the seconds between heartbeats. With thousands of ranks they become rarer, so that a
// watcher can process all.
double heartbeat_interval(double silence, size_t ranks) {
    constexpr double usual = 1;
    constexpr double heartbeats_per_silence = 8;
    constexpr double ranks_per_second = 1000;
    const double wanted =
        silence == Limits::none ? usual : std::min(usual, silence / heartbeats_per_silence);
    return wanted * std::max(1.0, static_cast<double>(ranks) / ranks_per_second);
}

}  // namespace

class Watchdog::Monitor {
public:
    Monitor(const comm::Group& world, std::optional<double> hang_timeout, const Pace& pace)
        : rank_(static_cast<size_t>(world.rank())),
          is_host_leader_(world.split_by_host("watch").is_root()),
          flight_recorder_(world.flight_recorder()),
          pace_(pace),
          limits_(hang_timeout, pace),
          channel_(world),
          interval_(heartbeat_interval(limits_.of_silence(), static_cast<size_t>(world.size()))),
          watchers_(channel_.watchers()),
          turn_(std::ranges::find(watchers_, rank_) - watchers_.begin()),
          table_(channel_.hosts(), limits_.of_silence()) {
        watching_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
    }
    ~Monitor() {
        watching_.request_stop();
        channel_.wake();
    }
    Monitor(const Monitor&) = delete;
    Monitor& operator=(const Monitor&) = delete;

    void at_attempt(std::optional<Attempt> attempt) { check_.at_attempt(std::move(attempt)); }
    void at_step(int64_t step) { step_ = step; }
    void begin(Work work) {
        const double now = clock_.seconds();
        limits_.took(work_, now - began_at_, operations_);
        work_ = work;
        operations_ = 0;
        began_at_ = now;
        limit_ = limits_.of(work);
        counts_bytes_ = work == Work::other;
        made_progress();
    }
    void expect(double operations) {
        operations_ = operations;
        limit_ = limits_.of(work_, operations);
    }
    void made_progress() { progress_at_ = clock_.seconds(); }

private:
    void watch(const std::stop_token& stop);
    void read_messages();
    void check_for_stall();
    void receive(Heartbeat heartbeat);
    void count_bytes();
    void send_heartbeat(bool is_last);
    bool has_to_check(double since_last) const;
    [[noreturn]] void leave(const Failure& failure) const;
    void send_to_all(const std::string& message) const;
    bool is_outranked() const { return clock_.seconds() - outranked_at_ < cut_off_; }
    bool watches() const { return turn_ < std::ssize(watchers_); }
    bool sees_stall(double now);
    std::string describe_cause() const;
    std::string where_files_are() const;
    [[noreturn]] void raise_alarm();
    [[noreturn]] void follow_alarm(const std::string& message);
    void dump(const std::string& message);
    void reset_after_suspend();

    const size_t rank_;
    const bool is_host_leader_;
    comm::FlightRecorder& flight_recorder_;
    const StackSampler stack_sampler_{};
    Timer clock_;

    // The training thread writes these, the watchdog thread reads them.
    std::atomic<double> began_at_ = 0;  // start of the current work
    std::atomic<double> progress_at_ = 0;
    std::atomic<double> limit_ = Limits::none;  // seconds without progress
    std::atomic<bool> counts_bytes_ = false;    // whether bytes count as progress
    std::atomic<int64_t> step_ = 0;

    // Only the training thread uses these.
    Work work_ = Work::preparation;
    double operations_ = 0;
    const Pace pace_;
    Limits limits_;

    // Only the watchdog thread uses these.
    DatagramChannel channel_;
    const double interval_;  // seconds between heartbeats
    const std::vector<size_t> watchers_;
    const std::ptrdiff_t turn_;  // position in the order of action, in which watchers come first
    const double cut_off_ = std::max(10.0, 8 * interval_);  // seconds without an answer
    HeartbeatTable table_;
    std::optional<double> stalled_since_{};
    int64_t bytes_before_ = 0;
    // Time at which an earlier watcher last answered this rank. The thread of check_ reads it too.
    std::atomic<double> outranked_at_ = 0;

    // Last, since their threads use the other members.
    AttemptCheck check_{pace_.between_checks / 10,
                        [this](double since_last) { return has_to_check(since_last); },
                        [this](const Failure& failure) { leave(failure); }};
    std::jthread watching_{};
};

void Watchdog::Monitor::watch(const std::stop_token& stop) {
    pthread_setname_np(pthread_self(), "watchdog");
    double looked_at = clock_.seconds();
    double next_heartbeat_at = looked_at;
    while (!stop.stop_requested()) {
        read_messages();
        const double now = clock_.seconds();
        // The scheduler suspended this process (`scontrol suspend`), and perhaps others: the time
        // since the last pass of this loop says nothing about progress.
        constexpr double stopped = 2;  // seconds
        if (now - looked_at > stopped + interval_) reset_after_suspend();
        looked_at = now;
        if (now >= next_heartbeat_at) {
            next_heartbeat_at = now + interval_;
            send_heartbeat(false);
            check_for_stall();
        }
        channel_.wait(std::max(0.0, next_heartbeat_at - clock_.seconds()));
    }
    send_heartbeat(true);
}

void Watchdog::Monitor::reset_after_suspend() {
    made_progress();
    table_.reset_after_suspend(clock_.seconds());
    stalled_since_.reset();
}

void Watchdog::Monitor::read_messages() {
    while (const auto message = channel_.receive()) {
        if (message->starts_with(alarm)) follow_alarm(message->substr(alarm.size()));
        if (message->starts_with(superseded)) std::_Exit(number(ExitCode::superseded));
        if (message->starts_with(answer)) {
            const auto turn = read_whole_number(message->substr(answer.size()));
            if (turn && *turn < turn_) outranked_at_ = clock_.seconds();
        } else if (auto heartbeat = read_heartbeat(*message)) {
            receive(std::move(*heartbeat));
        }
    }
}

// Answers every heartbeat: so a rank knows that a watcher, which has the state of all ranks, hears
// it.
void Watchdog::Monitor::receive(Heartbeat heartbeat) {
    const auto from = static_cast<size_t>(heartbeat.rank);
    if (watches() && from < channel_.hosts().size()) channel_.send(from, concat(answer, turn_));
    table_.record(std::move(heartbeat), clock_.seconds());
}

// Bytes count as progress only outside steps: a save writes while training continues.
void Watchdog::Monitor::count_bytes() {
    const int64_t bytes = flight_recorder_.bytes().total();
    if (counts_bytes_ && bytes != bytes_before_) made_progress();
    bytes_before_ = bytes;
}

void Watchdog::Monitor::send_heartbeat(bool is_last) {
    count_bytes();
    const double now = clock_.seconds();
    Heartbeat heartbeat{.rank = static_cast<int64_t>(rank_),
                        .step = step_,
                        .idle = std::max(0.0, now - progress_at_),
                        .limit = is_last ? Limits::none : limit_.load(),
                        .is_last = is_last,
                        .seconds = flight_recorder_.seconds_in_activity(),
                        .doing = flight_recorder_.activity(),
                        .groups = groups_for_heartbeat(flight_recorder_)};
    const std::string message = to_text(heartbeat);
    // Send the last heartbeat three times: no later one makes up for its loss.
    for (int times = is_last ? 3 : 1; times > 0; --times)
        for (const size_t watcher : watchers_)
            if (watcher != rank_) channel_.send(watcher, message);
    table_.record(std::move(heartbeat), now);
}

void Watchdog::Monitor::check_for_stall() {
    constexpr double between_turns = 3;  // seconds
    const double now = clock_.seconds();
    if (!sees_stall(now)) {
        stalled_since_.reset();
        return;
    }
    if (!stalled_since_) stalled_since_ = now;
    // Wait for one more heartbeat of every rank, and for the watchers that act earlier.
    const double patience = 2 * interval_ + between_turns * static_cast<double>(turn_);
    if (now - *stalled_since_ >= patience) raise_alarm();
}

// A rank that is not a watcher knows only its own state: it decides only if no watcher answers it.
bool Watchdog::Monitor::sees_stall(double now) {
    if (watches()) return table_.is_stalled(now);
    const double limit = limit_;
    return limit > 0 && now - progress_at_ > limit && !is_outranked();
}

// The first watcher checks for the whole job. If it does not answer, the next watcher checks, and
// at last one rank of each host: then more often, since the job may continue elsewhere without this
// host.
bool Watchdog::Monitor::has_to_check(double since_last) const {
    const bool is_first = turn_ == 0;
    const bool is_alone = !is_outranked() && (watches() || is_host_leader_);
    if (!is_first && !is_alone) return false;
    const double pause = is_first ? pace_.between_checks : pace_.between_checks / 3;
    return clock_.seconds() - began_at_ >= pause && since_last >= pause;
}

void Watchdog::Monitor::leave(const Failure& failure) const {
    std::fprintf(stderr, "trainer: [rank %zu on %s] %s\n", rank_, comm::host_name().c_str(),
                 failure.message.c_str());
    std::fflush(nullptr);
    send_to_all(std::string(superseded));
    std::_Exit(number(failure.code));
}

// Sends several times, since messages may be lost.
void Watchdog::Monitor::send_to_all(const std::string& message) const {
    constexpr int times = 3;
    constexpr auto pause = std::chrono::milliseconds(200);
    for (int i = 0; i < times; ++i) {
        for (const auto& [rank, host] : channel_.known())
            if (rank != rank_) channel_.send(rank, message);
        std::this_thread::sleep_for(pause);
    }
}

std::string Watchdog::Monitor::describe_cause() const {
    if (watches()) return diagnose(table_.views());
    std::vector<std::string> watchers;
    for (const size_t watcher : watchers_)
        watchers.push_back(format_text("rank {} on {}", watcher, channel_.known().at(watcher)));
    return format_text(
        "this rank has made no progress at: {}, and gets no answer from the watchers ({}): this "
        "host is cut off from them, or they hang too",
        flight_recorder_.activity(), join(watchers, ", "));
}

std::string Watchdog::Monitor::where_files_are() const {
    const auto attempt = check_.attempt();
    return attempt ? format_text("; the state of each rank is in {}",
                                 (attempt->folder / "hang-rank<r>.txt").string())
                   : "";
}

void Watchdog::Monitor::dump(const std::string& message) {
    const auto attempt = check_.attempt();
    if (!attempt) return;
    write_dump(
        attempt->folder / format_text("hang-rank{}.txt", rank_),
        format_text("rank {} on {}, step {}\n{}", rank_, comm::host_name(), step_.load(), message),
        flight_recorder_, stack_sampler_);
}

void Watchdog::Monitor::raise_alarm() {
    const std::string message =
        format_text("training is stalled: {}{}", describe_cause(), where_files_are());
    send_to_all(concat(alarm, message));
    // A detached thread writes the dump, since the file system may hang.
    std::thread([this, message] { dump(message); }).detach();
    constexpr auto for_all = std::chrono::seconds(3);  // for the other ranks to write their files
    std::this_thread::sleep_for(for_all);
    std::thread([this] { flight_recorder_.abort_backends(); }).detach();
    comm::end_job({ExitCode::peer_lost, message});
}

void Watchdog::Monitor::follow_alarm(const std::string& message) {
    std::thread([this, message] { dump(message); }).detach();
    // The rank that raised the alarm ends the job. If MPI cannot end this process, it exits by
    // itself.
    constexpr auto until_the_end = std::chrono::seconds(15);
    std::this_thread::sleep_for(until_the_end);
    std::_Exit(number(ExitCode::peer_lost));
}

Watchdog::Watchdog(const comm::Group& world, std::optional<double> hang_timeout, const Pace& pace)
    : monitor_(std::make_unique<Monitor>(world, hang_timeout, pace)) {}

Watchdog::~Watchdog() = default;

void Watchdog::at_attempt(std::optional<Attempt> attempt) {
    monitor_->at_attempt(std::move(attempt));
}
void Watchdog::at_step(int64_t step) { monitor_->at_step(step); }
void Watchdog::begin(Work work) { monitor_->begin(work); }
void Watchdog::expect(double operations) { monitor_->expect(operations); }
void Watchdog::made_progress() { monitor_->made_progress(); }

}  // namespace ringshard::watch
