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

// One operation of a group. Times are seconds on the recorder's clock.
struct OperationRecord {
    int64_t number = 0;     // within its group, from 1; the same on all its ranks
    const char* what = "";  // static lifetime
    int64_t bytes = 0;      // the larger of this rank's input and output
    double began = 0;       // when this rank started it
    double ended = -1;      // negative: in flight
};

// The operations of one group on this rank.
struct GroupLogState {
    std::string name;
    int64_t leader = 0;  // world rank of the group's first rank
    int64_t copy = 0;    // number of earlier groups with this name and leader
    int64_t begun = 0;
    int64_t ended = 0;
    int64_t awaited = 0;                  // number of the operation that a thread waits for, or 0
    bool is_main_waiting = false;         // the training thread is the one that waits
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

    int64_t begin(const char* what, int64_t bytes);  // returns the operation's number
    void end(int64_t number);

    // Marks for its lifetime that this thread waits for the operation.
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
    // An operation during whose lifetime the caller waits for it. An exception leaves it unended.
    class Operation {
    public:
        Operation(GroupLog& log, const char* what, int64_t bytes);
        ~Operation();

    private:
        GroupLog& log_;
        int64_t number_;
        int exceptions_at_construction_;
        Waiting waiting_;
    };

    // For backends whose operations end without the host: `refresh` records the ended operations,
    // `abort` ends those that hang. Other threads call both.
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

// Numbers the operations that take multiprocessors of a GPU from products, over all groups, in the
// order in which the training thread begins them.
class OperationsBesideProducts {
public:
    int64_t begin() { return ++newest_; }
    // Products may take all multiprocessors again once the newest operation is awaited: others that
    // began before may be under way at any other wait.
    bool frees_processors(int64_t awaited) const { return awaited == newest_; }

private:
    int64_t newest_ = 0;
};

// Records the last operations of every group and the activity of the training thread, for the
// diagnosis of a stalled job. Thread-safe, except for the waits of the training thread.
class FlightRecorder : public std::enable_shared_from_this<FlightRecorder> {
public:
    // The calling thread becomes the training thread, whose waits count.
    FlightRecorder() : main_(std::this_thread::get_id()) {}

    std::shared_ptr<GroupLog> open_log(std::string name, int64_t leader);

    // Sets the activity of the training thread; `what` has static lifetime.
    void set_activity(const char* what) {
        activity_ = what;
        activity_since_ = clock_.seconds();
    }
    const char* activity() const { return activity_; }
    double seconds_in_activity() const { return clock_.seconds() - activity_since_; }

    // Counts bytes that this process reads from or writes to files: checkpoints, models.
    ByteCounter& bytes() { return bytes_; }

    double now() const { return clock_.seconds(); }
    std::vector<GroupLogState> groups() const;
    // Aborts hanging operations on devices; the process is about to exit.
    void abort_backends() const;

    // Returns the seconds that the training thread has waited for other ranks.
    double seconds_waited() const { return seconds_waited_; }
    bool is_main_thread() const { return std::this_thread::get_id() == main_; }
    void add_wait(double seconds) { seconds_waited_ += seconds; }

    // Of the training thread.
    OperationsBesideProducts& beside_products() { return beside_products_; }

private:
    std::vector<std::shared_ptr<GroupLog>> living_logs() const;

    Timer clock_;
    std::thread::id main_;
    std::atomic<const char*> activity_ = "starting";
    std::atomic<double> activity_since_ = 0;
    ByteCounter bytes_;
    double seconds_waited_ = 0;  // only the training thread uses it
    OperationsBesideProducts beside_products_;
    mutable std::mutex mutex_;
    std::vector<std::weak_ptr<GroupLog>> logs_;
    std::vector<std::pair<std::string, int64_t>> opened_;  // name and leader of every log so far
};

}  // namespace ringshard::comm
