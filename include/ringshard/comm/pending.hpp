#pragma once

#include <memory>
#include <utility>

namespace ringshard::comm {

// A backend's operation under way. It owns the buffers of the operation.
class Completion {
public:
    virtual ~Completion() = default;
    // After it returns, what this thread (MPI) or its current stream (NCCL) does next sees the
    // result.
    virtual void wait() = 0;
};

// An operation under way. It keeps the operation's tensors alive; wait() or the destructor ends it.
class [[nodiscard]] Pending {
public:
    Pending() = default;  // nothing under way
    explicit Pending(std::unique_ptr<Completion> completion);
    Pending(Pending&& other) noexcept = default;
    Pending& operator=(Pending&& other) noexcept;
    ~Pending();  // waits, unless an exception unwinds: then the peers are elsewhere, and it leaks

    void wait();
    bool is_under_way() const { return completion_ != nullptr; }

private:
    std::unique_ptr<Completion> completion_;
    int exceptions_at_birth_ = 0;
};

}  // namespace ringshard::comm
