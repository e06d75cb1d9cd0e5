#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "ringshard/base/error.hpp"
#include "ringshard/offload/file_queue.hpp"

namespace ringshard::offload {

namespace {

class UringQueue final : public FileQueue {
public:
    static constexpr unsigned entries = 64;

    UringQueue(int descriptor, const io_uring& ring) : descriptor_(descriptor), ring_(ring) {}
    UringQueue(const UringQueue&) = delete;
    UringQueue& operator=(const UringQueue&) = delete;
    ~UringQueue() override {
        while (!under_way_.empty()) take_completion();
        io_uring_queue_exit(&ring_);
        close(descriptor_);
    }

    int descriptor() const override { return descriptor_; }
    const char* name() const override { return "io_uring"; }

    Operation start(const FileRequest& request) override {
        while (under_way_.size() >= entries) take_completion();
        const Operation operation = ++last_;
        under_way_[operation] = request;
        submit(operation, request);
        return operation;
    }

    int wait(Operation operation) override {
        while (under_way_.contains(operation)) take_completion();
        const auto failed = failed_.find(operation);
        return failed == failed_.end() ? 0 : failed->second;
    }

private:
    void submit(Operation operation, const FileRequest& request) {
        // The kernel transfers less than 2 GiB at a time.
        constexpr size_t most = size_t{1} << 30;
        io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
        RINGSHARD_CHECK(entry != nullptr, "no room in the queue, though it was counted");
        const auto size = static_cast<unsigned>(std::min(request.size, most));
        const auto offset = static_cast<__u64>(request.offset);
        if (request.is_write)
            io_uring_prep_write(entry, descriptor_, request.memory, size, offset);
        else
            io_uring_prep_read(entry, descriptor_, request.memory, size, offset);
        io_uring_sqe_set_data64(entry, operation);
        int submitted = -EINTR;
        while (submitted == -EINTR || submitted == -EAGAIN) submitted = io_uring_submit(&ring_);
        RINGSHARD_CHECK(submitted == 1, "io_uring took {} requests of 1", submitted);
    }

    void take_completion() {
        io_uring_cqe* completion = nullptr;
        const int error = io_uring_wait_cqe(&ring_, &completion);
        if (error == -EINTR || error == -EAGAIN) return;
        RINGSHARD_CHECK(error == 0, "io_uring: {}", std::strerror(-error));
        const Operation operation = io_uring_cqe_get_data64(completion);
        const int result = completion->res;
        io_uring_cqe_seen(&ring_, completion);

        FileRequest& request = under_way_.at(operation);
        if (result > 0) {
            const auto moved = static_cast<size_t>(result);
            request.memory += moved;
            request.size -= moved;
            request.offset += result;
        } else if (request.size > 0 && result != -EINTR && result != -EAGAIN) {
            failed_[operation] = result == 0 ? EIO : -result;
            request.size = 0;
        }
        if (request.size > 0)
            submit(operation, request);
        else
            under_way_.erase(operation);
    }

    int descriptor_;
    io_uring ring_;
    Operation last_ = 0;
    std::unordered_map<Operation, FileRequest> under_way_;  // with the bytes that remain
    std::unordered_map<Operation, int> failed_;             // errno
};

}  // namespace

std::unique_ptr<FileQueue> make_uring_queue(int descriptor) {
    io_uring ring{};
    if (io_uring_queue_init(UringQueue::entries, &ring, 0) != 0) return nullptr;
    return std::make_unique<UringQueue>(descriptor, ring);
}

}  // namespace ringshard::offload
