#include "worker.hpp"

#include <sys/prctl.h>

#include <utility>

namespace ringshard::comm {

Worker::~Worker() {
    {
        const std::lock_guard lock(mutex_);
        stops_ = true;
    }
    wakes_.notify_one();
    if (thread_.joinable()) thread_.join();
}

Worker::Done Worker::submit(std::function<void()> task) {
    auto done = std::make_shared<std::atomic<bool>>(false);
    {
        const std::lock_guard lock(mutex_);
        jobs_.push_back({std::move(task), done});
        if (!thread_.joinable()) thread_ = std::thread(&Worker::run, this);
    }
    wakes_.notify_one();
    return done;
}

void Worker::run() {
    // A thread that waits for messages sleeps some microseconds at a time; the kernel's default
    // slack is fifty.
    prctl(PR_SET_TIMERSLACK, 1000UL);
    for (;;) {
        Job job;
        {
            std::unique_lock lock(mutex_);
            wakes_.wait(lock, [this] { return stops_ || !jobs_.empty(); });
            if (jobs_.empty()) return;
            job = std::move(jobs_.front());
            jobs_.pop_front();
        }
        job.task();
        job.task = nullptr;  // free the tensors before any thread sees the task as done
        job.done->store(true);
        job.done->notify_all();
    }
}

}  // namespace ringshard::comm
