#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/comm/flight_recorder.hpp"

namespace ringshard::comm {

// Ranks that exchange small values through host memory. Owns an MPI communicator. For tensors, make
// a Communicator from a Group.
class Group {
public:
    // Duplicates the communicator, so that messages of the caller and of the group never mix.
    // Creates a flight recorder, which holds the logs of all groups made from this one. Collective
    // over `communicator`.
    explicit Group(MPI_Comm communicator, std::string name = "world");
    ~Group();  // collective, unless an exception unwinds or MPI has ended
    Group(Group&&) noexcept = default;
    Group& operator=(Group&&) = delete;

    int rank() const { return rank_; }
    int size() const { return size_; }
    bool is_root() const { return rank_ == 0; }

    // All functions below are collective over this group; they sleep while they wait.

    // Returns the group of this rank's color, ordered by the rank in this group.
    Group split(int64_t color, std::string name) const;
    Group split_by_host(std::string name = "host") const;  // ranks that share memory

    void barrier() const;
    int64_t sum(int64_t value) const;
    int64_t minimum(int64_t value) const;
    int64_t maximum(int64_t value) const;
    std::vector<double> sum(std::vector<double> values) const;        // the same bits on every rank
    std::vector<int64_t> maximum(std::vector<int64_t> values) const;  // by element
    bool all(bool value) const { return minimum(value ? 1 : 0) == 1; }
    std::string broadcast(const std::string& text, int root = 0) const;
    std::vector<std::string> gather(const std::string& text) const;  // of every rank, on every rank
    std::vector<int64_t> gather(int64_t value) const;
    std::vector<std::string> gather_to_root(const std::string& text) const;  // empty on other ranks
    // Sends text r of rank 0 to rank r; the arguments of other ranks are ignored.
    std::string scatter(const std::vector<std::string>& texts) const;

    MPI_Comm handle() const { return *communicator_; }
    // The log of this group, and the flight recorder of this process.
    GroupLog& log() const { return *log_; }
    FlightRecorder& flight_recorder() const { return log_->flight_recorder(); }

private:
    struct Free {
        int exceptions_at_construction;
        void operator()(MPI_Comm* communicator) const;
    };
    struct Adopt {};
    Group(Adopt, MPI_Comm communicator, FlightRecorder& flight_recorder,
          std::string name);  // takes ownership
    int64_t reduce(const char* what, int64_t value, MPI_Op operation) const;
    enum class Receivers { all, root };
    std::vector<std::string> gather(const std::string& text, Receivers receivers) const;

    std::unique_ptr<MPI_Comm, Free> communicator_;
    std::shared_ptr<GroupLog> log_;
    int rank_ = 0;
    int size_ = 1;
};

}  // namespace ringshard::comm
