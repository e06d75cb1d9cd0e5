#include "ringshard/checkpoint/liveness.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ringshard/base/files.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/comm/agree.hpp"

namespace ringshard::checkpoint {

using nlohmann::json;

namespace {

std::filesystem::path file_of(const std::filesystem::path& output_dir, int64_t attempt) {
    return attempt_folder(output_dir, attempt) / "alive";
}

std::string this_pid_space() {
    std::error_code ignored;
    const auto pid_namespace = std::filesystem::read_symlink("/proc/self/ns/pid", ignored);
    const auto boot = read_file("/proc/sys/kernel/random/boot_id");
    return format_text("{} {}", trim(boot.value_or("")), pid_namespace.string());
}

struct ProcessRecord {
    char state = '?';
    int64_t started = 0;
};

// Reads /proc/<pid>/stat, whose second field is a name in parentheses that may hold spaces.
std::optional<ProcessRecord> read_process(int64_t pid) {
    const auto content = read_file(format_text("/proc/{}/stat", pid));
    const size_t name_end = content ? content->rfind(')') : std::string::npos;
    if (name_end == std::string::npos) return std::nullopt;
    std::istringstream fields(content->substr(name_end + 1));
    ProcessRecord record;
    fields >> record.state;
    std::string skipped;
    for (int field = 4; field < 22; ++field) fields >> skipped;
    if (!(fields >> record.started)) return std::nullopt;
    return record;
}

std::string utc_now() {
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::tm parts{};
    gmtime_r(&now, &parts);
    std::array<char, 32> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text.data();
}

int64_t nanoseconds(const timespec& time) {
    constexpr int64_t per_second = 1'000'000'000;
    return time.tv_sec * per_second + time.tv_nsec;
}

std::string to_text(const Holder& holder) {
    return json{{"host", holder.host},
                {"pid", holder.pid},
                {"pid_space", holder.pid_space},
                {"started", holder.started},
                {"job", holder.job},
                {"restarts", holder.restarts},
                {"since", holder.since},
                {"curve", holder.fingerprint}}
               .dump(1, ' ', false, json::error_handler_t::replace) +
           "\n";
}

std::optional<Holder> read_holder(const std::string& text) {
    const json read = json_or_null<json>(text);
    if (!read.is_object()) return std::nullopt;
    const auto word = [&](const char* name) {
        const json value = read.value(name, json());
        return value.is_string() ? value.get<std::string>() : std::string();
    };
    const auto number = [&](const char* name) {
        const json value = read.value(name, json());
        return value.is_number_integer() ? value.get<int64_t>() : int64_t{0};
    };
    return Holder{.host = word("host"),
                  .pid = number("pid"),
                  .pid_space = word("pid_space"),
                  .started = number("started"),
                  .job = word("job"),
                  .restarts = number("restarts"),
                  .since = word("since"),
                  .fingerprint = word("curve")};
}

// Returns nothing if the file does not exist.
Expected<std::optional<int64_t>> modified_at(const std::filesystem::path& file) {
    struct stat found {};
    if (stat(file.c_str(), &found) == 0) return std::optional(nanoseconds(found.st_mtim));
    if (errno == ENOENT) return std::optional<int64_t>();
    return io_failure(file, "cannot be read");
}

// Returns the seconds from `then` to now, on the clock of the file server of that folder.
Expected<double> seconds_since(int64_t then, const std::filesystem::path& folder) {
    const auto probe = folder / format_text("clock{}", work_mark());
    const auto file = File::open(probe, O_RDWR | O_CREAT | O_TRUNC);
    if (!file) return file.failure();
    const auto now = modified_at(probe);
    unlink(probe.c_str());
    if (!now) return now.failure();
    return static_cast<double>(now.value().value_or(then) - then) * 1e-9;
}

}  // namespace

Holder this_process() {
    Holder me{.host = comm::host_name(), .pid = getpid(), .pid_space = this_pid_space()};
    if (const auto record = read_process(me.pid)) me.started = record->started;
    me.since = utc_now();
    return me;
}

ProcessState state_of(const Holder& holder) {
    if (holder.pid <= 0 || holder.pid_space != this_pid_space()) return ProcessState::elsewhere;
    if (kill(static_cast<pid_t>(holder.pid), 0) != 0 && errno == ESRCH) return ProcessState::dead;
    const auto record = read_process(holder.pid);
    if (!record) return ProcessState::running;  // another user's, if /proc hides it
    const bool has_exited = record->state == 'Z' || record->state == 'X';
    return has_exited || record->started != holder.started ? ProcessState::dead
                                                           : ProcessState::running;
}

Expected<std::unique_ptr<AliveFile>> AliveFile::begin(const Claim& claim, const Holder& holder,
                                                      const LivenessLimits& limits) {
    const auto file = file_of(claim.output_dir, claim.attempt);
    if (auto failure = write_file_atomically(file, to_text(holder))) return *failure;
    return std::unique_ptr<AliveFile>(new AliveFile(file, limits.interval));
}

AliveFile::AliveFile(std::filesystem::path file, double interval)
    : thread_([file = std::move(file), interval](const std::stop_token& stop) {
          pthread_setname_np(pthread_self(), "heartbeat");
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any never_notified;
          const std::chrono::duration<double> pause(interval);
          while (!never_notified.wait_for(lock, stop, pause, [] { return false; }) &&
                 !stop.stop_requested())
              utimensat(AT_FDCWD, file.c_str(), nullptr, 0);  // if it fails, the next call may not
      }) {}

AliveFile::~AliveFile() = default;

Expected<NewestAttempt> find_newest_attempt(const std::filesystem::path& output_dir,
                                            int64_t at_least) {
    const auto listed = newest_attempt(output_dir);
    if (!listed) return listed.failure();
    NewestAttempt newest{.number = std::max(listed.value(), at_least)};
    if (newest.number > 0)  // opening a folder makes NFS look again for missing files
        if (const auto folder = File::open(attempt_folder(output_dir, newest.number), O_RDONLY);
            !folder)
            return folder.failure();
    newest.has_ended = newest.number == 0 || read_end(output_dir, newest.number).has_value();
    if (newest.has_ended) return newest;
    const auto name = file_of(output_dir, newest.number);
    const auto content = read_file(name);  // reopened, so that NFS fetches its attributes
    if (content) newest.holder = read_holder(*content);
    const auto time = modified_at(content ? name : attempt_folder(output_dir, newest.number));
    if (!time) return time.failure();
    newest.signed_at = time.value().value_or(0);
    return newest;
}

Claimant::Claimant(std::filesystem::path output_dir, Holder me, Rules rules)
    : output_dir_(std::move(output_dir)), me_(std::move(me)), rules_(std::move(rules)) {}

bool Claimant::is_me_before_a_requeue(const NewestAttempt& newest) const {
    return newest.holder && !me_.job.empty() && newest.holder->job == me_.job &&
           me_.restarts > newest.holder->restarts;
}

std::optional<Failure> Claimant::check() {
    const auto found = find_newest_attempt(output_dir_, newest_);
    if (!found) return found.failure();
    const NewestAttempt& newest = found.value();
    newest_ = newest.number;
    follows_itself_ = is_me_before_a_requeue(newest);
    if (newest.has_ended || follows_itself_) return std::nullopt;
    const ProcessState state = newest.holder ? state_of(*newest.holder) : ProcessState::elsewhere;
    if (state == ProcessState::dead) return std::nullopt;
    const std::string differences =
        newest.holder ? rules_.differences(newest.holder->fingerprint) : std::string();
    if (rules_.takes_over && differences.empty()) return std::nullopt;
    if (state == ProcessState::running) return refuse(newest, differences);
    return wait_for_a_sign(newest);
}

double Claimant::seconds_to_wait() const {
    const LivenessLimits& limits = rules_.limits;
    if (sight_->age >= limits.long_silence) return 0;
    return std::max(limits.silence - sight_->age, limits.observation) - sight_->since.seconds();
}

// The process is on another host: only its signs of life show whether it runs.
std::optional<Failure> Claimant::wait_for_a_sign(const NewestAttempt& first) {
    if (!sight_ || sight_->attempt != first.number) {
        const auto age = seconds_since(first.signed_at, output_dir_);
        if (!age) return age.failure();
        sight_ = Sight{first.number, first.signed_at, age.value(), Timer()};
        if (seconds_to_wait() > 0)
            std::cerr << "note: attempt " << first.number << " of " << output_dir_.string()
                      << " gave its last sign of life " << std::llround(age.value())
                      << " s ago; this start waits up to " << std::llround(seconds_to_wait())
                      << " s for the next one, to see whether that attempt still runs\n";
    }
    NewestAttempt newest = first;
    for (;;) {
        if (newest.has_ended) return std::nullopt;
        if (newest.number != sight_->attempt || newest.signed_at != sight_->signed_at)
            return refuse(newest,
                          newest.holder ? rules_.differences(newest.holder->fingerprint) : "");
        const double left = seconds_to_wait();
        if (left <= 0) return std::nullopt;
        constexpr double looks_per_interval = 10;
        std::this_thread::sleep_for(std::chrono::duration<double>(
            std::min(left, rules_.limits.interval / looks_per_interval)));
        auto found = find_newest_attempt(output_dir_, newest_);
        if (!found) return found.failure();
        newest = std::move(found).value();
        newest_ = newest.number;
    }
}

Failure Claimant::refuse(const NewestAttempt& newest, const std::string& differences) const {
    std::string who;
    if (const auto& holder = newest.holder)
        who = format_text(": rank 0 on {}, process {}{}, since {}", holder->host, holder->pid,
                          holder->job.empty() ? "" : format_text(", SLURM job {}", holder->job),
                          holder->since);
    const auto age = seconds_since(newest.signed_at, output_dir_);
    if (age)
        who +=
            format_text(", last sign of life {} s ago", std::max(0LL, std::llround(age.value())));
    const std::string cure =
        differences.empty()
            ? "Name another output_dir, wait until that job ends, or say --take_over true: this "
              "start then goes on from the newest checkpoint, and that job ends with 79"
            : format_text(
                  "This start trains with other settings, so it is another run:\n"
                  "  {}\n"
                  "Name another output_dir, or wait until that job ends",
                  differences);
    return {ExitCode::settings, format_text("{}: attempt {} of a run is at work there{}. {}",
                                            rules_.output_dir_said, newest.number, who, cure)};
}

Expected<Claim> Claimant::claim() {
    for (;;) {
        if (auto failure = check()) return *failure;
        auto claimed = claim_attempt(output_dir_, newest_ + 1);
        if (!claimed) return claimed.failure();
        if (claimed.value()) return *std::move(claimed).value();
        ++newest_;  // another process has created it
    }
}

}  // namespace ringshard::checkpoint
