#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "ringshard/base/timer.hpp"
#include "ringshard/checkpoint/attempts.hpp"

// Decides whether the process of an attempt still runs. Rank 0 of a job writes attempt-<n>/alive
// when it claims the attempt, and updates the file's modification time until it ends; end.json
// records that it ended by itself. Only rank 0 calls these functions: a job of any size does one
// file operation per interval.
namespace ringshard::checkpoint {

// Rank 0 of the job that owns an attempt.
struct Holder {
    std::string host{};
    int64_t pid = 0;
    std::string pid_space{};    // boot and PID namespace, to which a pid belongs
    int64_t started = 0;        // clock ticks since that boot, since the kernel reuses pids
    std::string job{};          // SLURM job, "77@cluster"; empty outside of SLURM
    int64_t restarts = 0;       // how often SLURM has requeued the job
    std::string since{};        // UTC, for users
    std::string fingerprint{};  // settings that shape the loss curve, as text
};

// Describes this process; the caller sets job, restarts and fingerprint.
Holder this_process();

enum class ProcessState { running, dead, elsewhere };
// Looks the process up by pid and start time. `elsewhere`: this process cannot see its pids.
ProcessState state_of(const Holder& holder);

// Durations in seconds.
struct LivenessLimits {
    double interval = 30;     // between two updates of the file
    double silence = 90;      // after which a process that cannot be looked up counts as dead
    double observation = 45;  // part of the silence that the observer has to see for itself, since
                              // the file server may have paused and clocks may differ
    double long_silence = 600;  // enough without observation
};

// Writes attempt-<n>/alive, then updates its modification time every interval from a thread.
class AliveFile {
public:
    static Expected<std::unique_ptr<AliveFile>> begin(const Claim& claim, const Holder& holder,
                                                      const LivenessLimits& limits = {});
    ~AliveFile();
    AliveFile(const AliveFile&) = delete;
    AliveFile& operator=(const AliveFile&) = delete;

private:
    AliveFile(std::filesystem::path file, double interval);

    std::jthread thread_;
};

// The newest attempt of a run, as its folder shows it.
struct NewestAttempt {
    int64_t number = 0;              // 0: no attempt has begun the run
    bool has_ended = true;           // by itself, with an end.json
    std::optional<Holder> holder{};  // nothing if the attempt has no readable file `alive`
    int64_t signed_at = 0;           // time of `alive` or its folder, ns on the file server's clock
};

// `at_least`: an attempt known to exist, since a listing on NFS may be a minute old.
Expected<NewestAttempt> find_newest_attempt(const std::filesystem::path& output_dir,
                                            int64_t at_least);

// A process that is about to begin the next attempt of a run, and must not end a running one.
class Claimant {
public:
    struct Rules {
        bool takes_over = false;  // the user replaces a running attempt
        // Names the differences between the curve settings of another attempt and of this one;
        // empty if they are equal.
        std::function<std::string(const std::string& their_fingerprint)> differences;
        std::string output_dir_said{};  // "output_dir = OUT [command line]"
        LivenessLimits limits{};
    };
    Claimant(std::filesystem::path output_dir, Holder me, Rules rules);

    // Fails with the code `settings` if another process runs the newest attempt. Succeeds if that
    // process is dead, if this job is the same one after a requeue, or if the user takes over a run
    // of the same curve. If the process cannot be looked up, waits for its next sign of life, up to
    // limits.silence.
    std::optional<Failure> check();
    // Claims the next attempt after one more check(). If another process has begun an attempt
    // meanwhile, checks that one before it tries the next number.
    Expected<Claim> claim();

    // Returns true if the newest attempt belongs to this SLURM job, before SLURM requeued it.
    bool follows_itself() const { return follows_itself_; }
    const Holder& me() const { return me_; }

private:
    struct Sight {  // an attempt whose process cannot be looked up
        int64_t attempt;
        int64_t signed_at;
        double age;  // seconds: of the sign when it was first seen
        Timer since;
    };
    bool is_me_before_a_requeue(const NewestAttempt& newest) const;
    double seconds_to_wait() const;
    std::optional<Failure> wait_for_a_sign(const NewestAttempt& newest);
    Failure refuse(const NewestAttempt& newest, const std::string& differences) const;

    std::filesystem::path output_dir_;
    Holder me_;
    Rules rules_;
    int64_t newest_ = 0;
    bool follows_itself_ = false;
    std::optional<Sight> sight_;
};

}  // namespace ringshard::checkpoint
