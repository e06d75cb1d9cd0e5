#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace ringshard::comm {

// A thread that runs its tasks in order. The first task starts it.
class Worker {
public:
    // Becomes true when the task is done; other threads wait on it.
    using Done = std::shared_ptr<std::atomic<bool>>;

    Worker() = default;
    ~Worker();  // runs the remaining tasks, then ends
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    Done submit(std::function<void()> task);

private:
    struct Job {
        std::function<void()> task;
        Done done;
    };
    void run();

    std::mutex mutex_;
    std::condition_variable wakes_;
    std::deque<Job> jobs_;
    bool stops_ = false;
    std::thread thread_;
};

}  // namespace ringshard::comm
