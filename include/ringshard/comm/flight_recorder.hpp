#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ringshard/base/byte_counter.hpp"
#include "ringshard/base/timer.hpp"

namespace ringshard::comm {

class FlightRecorder;

// An operation of a group. Times are seconds on the recorder's clock.
struct OperationRecord {
    int64_t number = 0;     // in its group, from 1: the same on all its ranks
    const char* what = "";  // lives as long as the program
    int64_t bytes = 0;      // of what one rank gives or gets, whichever is more
    double began = 0;       // when this rank came to it
    double ended = -1;      // below zero: under way
};

// The operations of one group on this rank.
struct GroupLogState {
    std::string name;
    int64_t leader = 0;  // rank in the world of the first of the group
    int64_t copy = 0;    // so many groups of this name and leader were made before
    int64_t begun = 0;
    int64_t ended = 0;
    int64_t awaited = 0;           // number of the operation that a thread waits for; 0: none
    bool is_main_waiting = false;  // and it is the thread that trains
    std::vector<OperationRecord> last{};  // oldest first
    bool is_same_group(const GroupLogState& other) const {
        return name == other.name && leader == other.leader && copy == other.copy;
    }
};

// The log of one group in the flight recorder. Operations of a group end in the order in which they
// begin.
class GroupLog {
public:
    GroupLog(std::shared_ptr<FlightRecorder> flight_recorder, GroupLogState about)
        : flight_recorder_(std::move(flight_recorder)), about_(std::move(about)) {}

    int64_t begin(const char* what, int64_t bytes);  // the number of the operation
    void end(int64_t number);

    // Marks, while it lives, that this thread waits for that operation.
    class Waiting {
    public:
        Waiting(GroupLog& log, int64_t number);
        ~Waiting();
        Waiting(const Waiting&) = delete;
        Waiting& operator=(const Waiting&) = delete;

    private:
        GroupLog& log_;
        Timer timer_;
    };
    // An operation that the caller waits for from begin to end. If an exception leaves it, it has
    // not ended.
    class Operation {
    public:
        Operation(GroupLog& log, const char* what, int64_t bytes);
        ~Operation();

    private:
        GroupLog& log_;
        int64_t number_;
        int exceptions_at_birth_;
        Waiting waiting_;
    };

    // For a backend whose operations end without the host: `refresh` records those that have ended,
    // `abort` ends those that never will. Other threads call both.
    void set_backend(std::function<void()> refresh, std::function<void()> abort);

    FlightRecorder& flight_recorder() const { return *flight_recorder_; }
    GroupLogState state() const;
    void abort() const;

private:
    static constexpr size_t kept = 16;  // operations

    std::shared_ptr<FlightRecorder> flight_recorder_;
    mutable std::mutex mutex_;
    GroupLogState about_;
    std::array<OperationRecord, kept> last_{};
    mutable std::mutex backend_mutex_;
    std::function<void()> refresh_;
    std::function<void()> abort_;
};

// Records the last operations of every group and the activity of the thread that trains, for the
// diagnosis of a stalled job. Any thread may write to it and read it.
class FlightRecorder : public std::enable_shared_from_this<FlightRecorder> {
public:
    // The calling thread is the one whose waiting counts.
    FlightRecorder() : main_(std::this_thread::get_id()) {}

    std::shared_ptr<GroupLog> open_log(std::string name, int64_t leader);

    // Sets the activity of the thread that trains; `what` has static lifetime.
    void set_activity(const char* what) {
        activity_ = what;
        activity_since_ = clock_.seconds();
    }
    const char* activity() const { return activity_; }
    double seconds_in_activity() const { return clock_.seconds() - activity_since_; }

    // Of files that this process reads or writes: checkpoints, models.
    ByteCounter& bytes() { return bytes_; }

    double now() const { return clock_.seconds(); }
    std::vector<GroupLogState> groups() const;
    // Aborts operations on devices that will not end by themselves; the process is about to end.
    void abort_backends() const;

    // Returns the seconds that the thread that trains has waited for other ranks.
    double seconds_waited() const { return seconds_waited_; }
    bool is_main_thread() const { return std::this_thread::get_id() == main_; }
    void add_wait(double seconds) { seconds_waited_ += seconds; }

private:
    std::vector<std::shared_ptr<GroupLog>> living_logs() const;

    Timer clock_;
    std::thread::id main_;
    std::atomic<const char*> activity_ = "starting";
    std::atomic<double> activity_since_ = 0;
    ByteCounter bytes_;
    double seconds_waited_ = 0;  // the main thread's alone
    mutable std::mutex mutex_;
    std::vector<std::weak_ptr<GroupLog>> logs_;
    std::vector<std::pair<std::string, int64_t>> opened_;  // name and leader of every log so far
};

}  // namespace ringshard::comm
