#pragma once

#include <memory>
#include <utility>

namespace ringshard::comm {

// An operation of a backend in flight. It owns the buffers of the operation.
class Completion {
public:
    virtual ~Completion() = default;
    // Waits so that later work of this thread (MPI) or of its current stream (NCCL) sees the
    // result.
    virtual void wait() = 0;
};

// An operation in flight. It keeps the operation's tensors alive; wait() or the destructor ends it.
class [[nodiscard]] Pending {
public:
    Pending() = default;  // no operation in flight
    explicit Pending(std::unique_ptr<Completion> completion);
    Pending(Pending&& other) noexcept = default;
    Pending& operator=(Pending&& other) noexcept;
    ~Pending();  // waits; during an exception the peers may never come, so it leaks instead

    void wait();
    bool is_under_way() const { return completion_ != nullptr; }

private:
    std::unique_ptr<Completion> completion_;
    int exceptions_at_construction_ = 0;
};

}  // namespace ringshard::comm
