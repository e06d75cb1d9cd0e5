#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "ringshard/offload/file_queue.hpp"

namespace ringshard::offload {

namespace {

// Returns 0 or errno.
int carry_out(int descriptor, FileRequest request) {
    while (request.size > 0) {
        const ssize_t moved = request.is_write
                                  ? pwrite(descriptor, request.memory, request.size, request.offset)
                                  : pread(descriptor, request.memory, request.size, request.offset);
        if (moved < 0 && errno == EINTR) continue;
        if (moved < 0) return errno;
        if (moved == 0) return EIO;
        request.memory += moved;
        request.size -= static_cast<size_t>(moved);
        request.offset += moved;
    }
    return 0;
}

class ThreadQueue final : public FileQueue {
public:
    explicit ThreadQueue(int descriptor) : descriptor_(descriptor) {
        for (std::thread& thread : threads_) thread = std::thread(&ThreadQueue::run, this);
    }
    ThreadQueue(const ThreadQueue&) = delete;
    ThreadQueue& operator=(const ThreadQueue&) = delete;
    ~ThreadQueue() override {
        {
            const std::lock_guard lock(mutex_);
            stops_ = true;
        }
        wakes_.notify_all();
        for (std::thread& thread : threads_) thread.join();
        close(descriptor_);
    }

    int descriptor() const override { return descriptor_; }
    const char* name() const override { return "pread and pwrite in threads"; }

    Operation start(const FileRequest& request) override {
        const std::lock_guard lock(mutex_);
        const Operation operation = ++last_;
        waiting_.push_back({operation, request});
        results_[operation] = under_way;
        wakes_.notify_one();
        return operation;
    }

    int wait(Operation operation) override {
        std::unique_lock lock(mutex_);
        ended_.wait(lock, [&] { return results_.at(operation) != under_way; });
        const int result = results_.at(operation);
        if (result == 0) results_.erase(operation);
        return result;
    }

private:
    struct Job {
        Operation operation;
        FileRequest request;
    };
    static constexpr int under_way = -1;

    void run() {
        for (;;) {
            Job job{};
            {
                std::unique_lock lock(mutex_);
                wakes_.wait(lock, [this] { return stops_ || !waiting_.empty(); });
                if (waiting_.empty()) return;
                job = waiting_.front();
                waiting_.pop_front();
            }
            const int result = carry_out(descriptor_, job.request);
            const std::lock_guard lock(mutex_);
            results_[job.operation] = result;
            ended_.notify_all();
        }
    }

    int descriptor_;
    std::mutex mutex_;
    std::condition_variable wakes_;
    std::condition_variable ended_;
    std::deque<Job> waiting_;
    std::unordered_map<Operation, int> results_;  // also of failed ones after wait()
    Operation last_ = 0;
    bool stops_ = false;
    std::array<std::thread, 4> threads_;
};

}  // namespace

std::unique_ptr<FileQueue> make_thread_queue(int descriptor) {
    return std::make_unique<ThreadQueue>(descriptor);
}

}  // namespace ringshard::offload
