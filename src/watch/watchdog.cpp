#include "ringshard/watch/watchdog.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "diagnosis.hpp"
#include "dump.hpp"
#include "limits.hpp"
#include "post.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/comm/crash_report.hpp"
#include "roll.hpp"

namespace ringshard::watch {

namespace {

constexpr std::string_view alarm = "alarm\n";  // what such a letter begins with

// Seconds from one beat to the next: a watcher of very many ranks hears each of them less often.
double beat_interval(double silence, size_t ranks) {
    constexpr double usual = 1;
    constexpr double beats_per_silence = 8;
    constexpr double ranks_per_second = 1000;
    const double wanted =
        silence == Limits::none ? usual : std::min(usual, silence / beats_per_silence);
    return wanted * std::max(1.0, static_cast<double>(ranks) / ranks_per_second);
}

}  // namespace

class Watchdog::Guard {
public:
    Guard(const comm::Group& world, std::optional<double> hang_timeout)
        : rank_(static_cast<size_t>(world.rank())),
          speaks_for_host_(world.split_by_host("watch").is_root()),
          journal_(world.journal()),
          limits_(hang_timeout),
          post_(world),
          interval_(beat_interval(limits_.of_silence(), static_cast<size_t>(world.size()))),
          watchers_(post_.watchers()),
          turn_(std::ranges::find(watchers_, rank_) - watchers_.begin()),
          roll_(post_.hosts(), limits_.of_silence()) {
        watching_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
        asking_ = std::jthread([this](const std::stop_token& stop) { ask_for_owner(stop); });
    }
    ~Guard() {
        watching_.request_stop();
        asking_.request_stop();
        post_.wake();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

    void at_attempt(std::optional<Attempt> attempt) {
        const std::lock_guard lock(mutex_);
        attempt_ = std::move(attempt);
    }
    void at_step(int64_t step) { step_ = step; }
    void begin(Work work) {
        limits_.took(work_, clock_.seconds() - progress_at_);
        work_ = work;
        limit_ = limits_.of(work);
        made_progress();
    }
    void made_progress() { progress_at_ = clock_.seconds(); }

private:
    void watch(const std::stop_token& stop);
    void read_letters();
    void look();
    void tell_watchers(bool is_last);
    void ask_for_owner(const std::stop_token& stop);
    void leave_if_superseded();
    bool is_late(double now) const { return limit_ > 0 && now - progress_at_ > limit_; }
    bool watches() const { return turn_ < std::ssize(watchers_); }
    bool is_in_trouble(double now);
    std::string find_cause() const;
    [[noreturn]] void raise_alarm();
    [[noreturn]] void follow_alarm(const std::string& message);
    void dump(const std::string& message);
    std::optional<Attempt> attempt();
    void forget_the_past();

    const size_t rank_;
    const bool speaks_for_host_;
    comm::Journal& journal_;
    const StackWitness witness_{};
    Timer clock_;

    // The thread that trains writes these, and the one that watches reads them.
    std::atomic<double> progress_at_ = 0;
    std::atomic<double> limit_ = Limits::none;
    std::atomic<int64_t> step_ = 0;
    std::mutex mutex_;  // of the attempt
    std::optional<Attempt> attempt_;

    // The thread that trains alone.
    Work work_ = Work::preparation;
    Limits limits_;

    // The thread that watches alone.
    Post post_;
    const double interval_;  // seconds from beat to beat
    const std::vector<size_t> watchers_;
    const std::ptrdiff_t turn_;  // in which this rank acts: watchers first, one after another
    Roll roll_;
    std::optional<double> trouble_since_{};

    // Last: they use the others. Files are looked at by a thread of its own: where a file system
    // hangs, the other one must go on.
    std::jthread watching_{};
    std::jthread asking_{};
};

void Watchdog::Guard::watch(const std::stop_token& stop) {
    pthread_setname_np(pthread_self(), "watchdog");
    double looked_at = clock_.seconds();
    double next_beat_at = looked_at;
    while (!stop.stop_requested()) {
        read_letters();
        const double now = clock_.seconds();
        // The whole process was stopped meanwhile, as `scontrol suspend` does, and perhaps the
        // others too: nobody was waited for.
        constexpr double stopped = 2;  // seconds
        if (now - looked_at > stopped + interval_) forget_the_past();
        looked_at = now;
        if (now >= next_beat_at) {
            next_beat_at = now + interval_;
            tell_watchers(false);
            look();
        }
        post_.wait(std::max(0.0, next_beat_at - clock_.seconds()));
    }
    tell_watchers(true);
}

void Watchdog::Guard::forget_the_past() {
    made_progress();
    roll_.forgive(clock_.seconds());
    trouble_since_.reset();
}

void Watchdog::Guard::read_letters() {
    while (const auto letter = post_.receive()) {
        if (letter->starts_with(alarm)) follow_alarm(letter->substr(alarm.size()));
        if (auto beat = read_beat(*letter)) roll_.take(std::move(*beat), clock_.seconds());
    }
}

void Watchdog::Guard::tell_watchers(bool is_last) {
    const double now = clock_.seconds();
    Beat beat{.rank = static_cast<int64_t>(rank_),
              .step = step_,
              .is_late = !is_last && is_late(now),
              .is_last = is_last,
              .seconds = journal_.seconds_in_it(),
              .doing = journal_.what_is_done(),
              .pages = pages_for_beat(journal_)};
    const std::string letter = to_text(beat);
    // A beat that is lost is followed by the next one; the last one is not.
    for (int times = is_last ? 3 : 1; times > 0; --times)
        for (const size_t watcher : watchers_)
            if (watcher != rank_) post_.send(watcher, letter);
    roll_.take(std::move(beat), now);
}

void Watchdog::Guard::look() {
    constexpr double between_turns = 3;  // seconds
    const double now = clock_.seconds();
    if (!is_in_trouble(now)) {
        trouble_since_.reset();
        return;
    }
    if (!trouble_since_) trouble_since_ = now;
    // Until all have been heard of again, and those whose turn is earlier would have acted.
    const double patience = 2 * interval_ + between_turns * static_cast<double>(turn_);
    if (now - *trouble_since_ >= patience) raise_alarm();
}

// A rank that does not watch hears nothing of the others, and has no table of them.
bool Watchdog::Guard::is_in_trouble(double now) {
    return watches() ? roll_.has_trouble(now) : is_late(now);
}

void Watchdog::Guard::ask_for_owner(const std::stop_token& stop) {
    constexpr double long_for_a_step = 20;  // seconds
    constexpr auto pause = std::chrono::seconds(5);
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never_notified;
    while (!never_notified.wait_for(lock, stop, pause, [] { return false; }) &&
           !stop.stop_requested())
        if (clock_.seconds() - progress_at_ > long_for_a_step) leave_if_superseded();
}

std::optional<Watchdog::Attempt> Watchdog::Guard::attempt() {
    const std::lock_guard lock(mutex_);
    return attempt_;
}

void Watchdog::Guard::leave_if_superseded() {
    const auto attempt = this->attempt();
    const auto superseded = attempt ? attempt->is_superseded() : std::nullopt;
    if (!superseded) return;
    if (speaks_for_host_)
        std::fprintf(stderr, "trainer: [on %s] the step does not end, and %s\n",
                     comm::host_name().c_str(), superseded->message.c_str());
    std::fflush(nullptr);
    std::_Exit(number(superseded->code));
}

std::string Watchdog::Guard::find_cause() const {
    if (watches()) return diagnose(roll_.views());
    std::vector<std::string> watchers;
    for (const size_t watcher : watchers_)
        watchers.push_back(concat("rank ", watcher, " on ", post_.known().at(watcher)));
    return concat("this rank does not get on at: ", journal_.what_is_done(),
                  ", and none of those who watch is heard (", join(watchers, ", "),
                  "): this host is cut off from them, or they hang too");
}

void Watchdog::Guard::dump(const std::string& message) {
    const auto attempt = this->attempt();
    if (!attempt) return;
    write_dump(
        attempt->folder / concat("hang-rank", rank_, ".txt"),
        concat("rank ", rank_, " on ", comm::host_name(), ", step ", step_.load(), '\n', message),
        journal_, witness_);
}

void Watchdog::Guard::raise_alarm() {
    const std::string message = concat(
        "nothing gets done: ", find_cause(),
        attempt() ? "; what each rank was at is in attempt-<n>/hang-rank<r>.txt in output_dir"
                  : "");      // a start that still loads has no folder for it
    constexpr int times = 3;  // letters may be lost
    constexpr auto pause = std::chrono::milliseconds(200);
    for (int i = 0; i < times; ++i) {
        for (const auto& [rank, host] : post_.known())
            if (rank != rank_) post_.send(rank, concat(alarm, message));
        std::this_thread::sleep_for(pause);
    }
    // Beside it, since the file system may be what hangs.
    std::thread([this, message] { dump(message); }).detach();
    constexpr auto for_all = std::chrono::seconds(3);  // to write theirs
    std::this_thread::sleep_for(for_all);
    std::thread([this] { journal_.abort_backends(); }).detach();
    comm::end_job({ExitCode::peer_lost, message});
}

void Watchdog::Guard::follow_alarm(const std::string& message) {
    std::thread([this, message] { dump(message); }).detach();
    // The one who raised it ends the job; only where it cannot reach this process it goes on.
    constexpr auto until_the_end = std::chrono::seconds(15);
    std::this_thread::sleep_for(until_the_end);
    std::_Exit(number(ExitCode::peer_lost));
}

Watchdog::Watchdog(const comm::Group& world, std::optional<double> hang_timeout)
    : guard_(std::make_unique<Guard>(world, hang_timeout)) {}

Watchdog::~Watchdog() = default;

void Watchdog::at_attempt(std::optional<Attempt> attempt) {
    guard_->at_attempt(std::move(attempt));
}
void Watchdog::at_step(int64_t step) { guard_->at_step(step); }
void Watchdog::begin(Work work) { guard_->begin(work); }
void Watchdog::made_progress() { guard_->made_progress(); }

}  // namespace ringshard::watch
