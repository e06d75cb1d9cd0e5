#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ringshard::comm {

// Some ranks that agree on small things through host memory: an owned MPI communicator.
// Tensors travel through a Communicator, which is made from a Group.
class Group {
public:
    // Duplicates: what the caller does on its communicator never meets what happens here.
    // Collective.
    explicit Group(MPI_Comm communicator);
    ~Group();  // collective, unless an exception unwinds or MPI has ended
    Group(Group&&) noexcept = default;
    Group& operator=(Group&&) = delete;

    int rank() const { return rank_; }
    int size() const { return size_; }
    bool is_root() const { return rank_ == 0; }

    // Everything below is collective over this group, and waits without keeping a core busy.

    // Ranks of one color, ordered by their rank here.
    Group split(int64_t color) const;
    Group split_by_host() const;  // ranks that share memory

    void barrier() const;
    int64_t sum(int64_t value) const;
    int64_t minimum(int64_t value) const;
    int64_t maximum(int64_t value) const;
    std::vector<double> sum(std::vector<double> values) const;  // the same bits on every rank
    bool all(bool value) const { return minimum(value ? 1 : 0) == 1; }
    std::string broadcast(const std::string& text, int root = 0) const;
    std::vector<std::string> gather(const std::string& text) const;  // of every rank, on every rank
    std::vector<int64_t> gather(int64_t value) const;
    std::vector<std::string> gather_to_root(const std::string& text) const;  // empty elsewhere

    MPI_Comm handle() const { return *communicator_; }

private:
    struct Free {
        int exceptions_at_birth;
        void operator()(MPI_Comm* communicator) const;
    };
    struct Adopt {};
    Group(Adopt, MPI_Comm communicator);  // takes it over

    std::unique_ptr<MPI_Comm, Free> communicator_;
    int rank_ = 0;
    int size_ = 1;
};

}  // namespace ringshard::comm
