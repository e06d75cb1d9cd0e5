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

// How messages begin that are no heartbeats.
constexpr std::string_view alarm = "alarm\n";            // and the line for people
constexpr std::string_view answer = "answer\n";          // of a watcher, to each heartbeat
constexpr std::string_view superseded = "superseded\n";  // by a newer attempt

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
    Guard(const comm::Group& world, std::optional<double> hang_timeout, const Pace& pace)
        : rank_(static_cast<size_t>(world.rank())),
          speaks_for_host_(world.split_by_host("watch").is_root()),
          journal_(world.journal()),
          pace_(pace),
          limits_(hang_timeout, pace),
          post_(world),
          interval_(beat_interval(limits_.of_silence(), static_cast<size_t>(world.size()))),
          watchers_(post_.watchers()),
          turn_(std::ranges::find(watchers_, rank_) - watchers_.begin()),
          roll_(post_.hosts(), limits_.of_silence()) {
        watching_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
    }
    ~Guard() {
        watching_.request_stop();
        post_.wake();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

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
    void read_letters();
    void look();
    void take(Beat beat);
    void count_bytes();
    void tell_watchers(bool is_last);
    bool has_to_ask(double since_last) const;
    [[noreturn]] void leave(const Failure& failure) const;
    void send_to_all(const std::string& message) const;
    bool hears_earlier_watcher() const { return clock_.seconds() - heard_earlier_at_ < cut_off_; }
    bool watches() const { return turn_ < std::ssize(watchers_); }
    bool is_in_trouble(double now);
    std::string find_cause() const;
    std::string place_of_files() const;
    [[noreturn]] void raise_alarm();
    [[noreturn]] void follow_alarm(const std::string& message);
    void dump(const std::string& message);
    void forget_the_past();

    const size_t rank_;
    const bool speaks_for_host_;
    comm::Journal& journal_;
    const StackWitness witness_{};
    Timer clock_;

    // The thread that trains writes these, and the one that watches reads them.
    std::atomic<double> began_at_ = 0;  // the work
    std::atomic<double> progress_at_ = 0;
    std::atomic<double> limit_ = Limits::none;  // seconds without progress
    std::atomic<bool> counts_bytes_ = false;    // as progress
    std::atomic<int64_t> step_ = 0;

    // The thread that trains alone.
    Work work_ = Work::preparation;
    double operations_ = 0;
    const Pace pace_;
    Limits limits_;

    // The thread that watches alone.
    Post post_;
    const double interval_;  // seconds from beat to beat
    const std::vector<size_t> watchers_;
    const std::ptrdiff_t turn_;  // in which this rank acts: watchers first, one after another
    const double cut_off_ = std::max(10.0, 8 * interval_);  // seconds without an answer
    Roll roll_;
    std::optional<double> trouble_since_{};
    int64_t bytes_before_ = 0;
    // When a watcher whose turn comes before this rank's was last heard. Read by the thread that
    // asks, too.
    std::atomic<double> heard_earlier_at_ = 0;

    // Last: their threads use the others.
    AttemptCheck check_{pace_.between_questions / 10,
                        [this](double since_last) { return has_to_ask(since_last); },
                        [this](const Failure& failure) { leave(failure); }};
    std::jthread watching_{};
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
        if (letter->starts_with(superseded)) std::_Exit(number(ExitCode::superseded));
        if (letter->starts_with(answer)) {
            const auto turn = read_whole_number(letter->substr(answer.size()));
            if (turn && *turn < turn_) heard_earlier_at_ = clock_.seconds();
        } else if (auto beat = read_beat(*letter)) {
            take(std::move(*beat));
        }
    }
}

// The answer tells a rank that a watcher hears it and judges with more knowledge than its own.
void Watchdog::Guard::take(Beat beat) {
    const auto from = static_cast<size_t>(beat.rank);
    if (watches() && from < post_.hosts().size()) post_.send(from, concat(answer, turn_));
    roll_.take(std::move(beat), clock_.seconds());
}

// Bytes of a save that is written beside the training say nothing about the training.
void Watchdog::Guard::count_bytes() {
    const int64_t bytes = journal_.bytes().total();
    if (counts_bytes_ && bytes != bytes_before_) made_progress();
    bytes_before_ = bytes;
}

void Watchdog::Guard::tell_watchers(bool is_last) {
    count_bytes();
    const double now = clock_.seconds();
    Beat beat{.rank = static_cast<int64_t>(rank_),
              .step = step_,
              .idle = std::max(0.0, now - progress_at_),
              .limit = is_last ? Limits::none : limit_.load(),
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

// A rank that does not watch has no table of the others: it knows of itself alone, and leaves the
// decision to a watcher that it hears.
bool Watchdog::Guard::is_in_trouble(double now) {
    if (watches()) return roll_.has_trouble(now);
    const double limit = limit_;
    return limit > 0 && now - progress_at_ > limit && !hears_earlier_watcher();
}

// The first watcher asks for the whole job. If it is not heard, the next one does, and last one
// rank of each host: more often then, since the job may have gone on elsewhere without this host.
bool Watchdog::Guard::has_to_ask(double since_last) const {
    const bool is_first = turn_ == 0;
    const bool is_alone = !hears_earlier_watcher() && (watches() || speaks_for_host_);
    if (!is_first && !is_alone) return false;
    const double pause = is_first ? pace_.between_questions : pace_.between_questions / 3;
    return clock_.seconds() - began_at_ >= pause && since_last >= pause;
}

void Watchdog::Guard::leave(const Failure& failure) const {
    std::fprintf(stderr, "trainer: [rank %zu on %s] %s\n", rank_, comm::host_name().c_str(),
                 failure.message.c_str());
    std::fflush(nullptr);
    send_to_all(std::string(superseded));
    std::_Exit(number(failure.code));
}

// Several times, since messages may be lost.
void Watchdog::Guard::send_to_all(const std::string& message) const {
    constexpr int times = 3;
    constexpr auto pause = std::chrono::milliseconds(200);
    for (int i = 0; i < times; ++i) {
        for (const auto& [rank, host] : post_.known())
            if (rank != rank_) post_.send(rank, message);
        std::this_thread::sleep_for(pause);
    }
}

std::string Watchdog::Guard::find_cause() const {
    if (watches()) return diagnose(roll_.views());
    std::vector<std::string> watchers;
    for (const size_t watcher : watchers_)
        watchers.push_back(concat("rank ", watcher, " on ", post_.known().at(watcher)));
    return concat("this rank has made no progress at: ", journal_.what_is_done(),
                  ", and hears no watcher (", join(watchers, ", "),
                  "): this host is cut off from them, or they hang too");
}

std::string Watchdog::Guard::place_of_files() const {
    const auto attempt = check_.attempt();
    return attempt ? concat("; the state of each rank is in ",
                            (attempt->folder / "hang-rank<r>.txt").string())
                   : "";
}

void Watchdog::Guard::dump(const std::string& message) {
    const auto attempt = check_.attempt();
    if (!attempt) return;
    write_dump(
        attempt->folder / concat("hang-rank", rank_, ".txt"),
        concat("rank ", rank_, " on ", comm::host_name(), ", step ", step_.load(), '\n', message),
        journal_, witness_);
}

void Watchdog::Guard::raise_alarm() {
    const std::string message = concat("training is stalled: ", find_cause(), place_of_files());
    send_to_all(concat(alarm, message));
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

Watchdog::Watchdog(const comm::Group& world, std::optional<double> hang_timeout, const Pace& pace)
    : guard_(std::make_unique<Guard>(world, hang_timeout, pace)) {}

Watchdog::~Watchdog() = default;

void Watchdog::at_attempt(std::optional<Attempt> attempt) {
    guard_->at_attempt(std::move(attempt));
}
void Watchdog::at_step(int64_t step) { guard_->at_step(step); }
void Watchdog::begin(Work work) { guard_->begin(work); }
void Watchdog::expect(double operations) { guard_->expect(operations); }
void Watchdog::made_progress() { guard_->made_progress(); }

}  // namespace ringshard::watch
