#include "crew.hpp"

#include "futex.hpp"

namespace ringshard::test {

Crew::~Crew() {
    work_ = nullptr;
    for (Member& member : members_) {
        member.launch.fetch_add(1, std::memory_order_release);
        wake_all(member.launch);
    }
}

void Crew::run(int count, const std::function<void(int)>& work) {
    while (static_cast<int>(members_.size()) < count) {
        Member& member = members_.emplace_back();
        member.thread =
            std::jthread([this, &member, number = static_cast<int>(members_.size()) - 1] {
                serve(member, number);
            });
    }
    work_ = &work;
    count_ = count;
    done_.store(0, std::memory_order_relaxed);
    for (int i = 0; i < count; ++i) {
        std::atomic<int>& launch = members_[static_cast<size_t>(i)].launch;
        launch.fetch_add(1, std::memory_order_release);
        wake_all(launch);
    }
    for (int done = done_.load(std::memory_order_acquire); done < count;
         done = done_.load(std::memory_order_acquire))
        sleep_while(done_, done);
}

void Crew::serve(Member& member, int number) {
    for (int launch = 0;; ++launch) {
        while (member.launch.load(std::memory_order_acquire) == launch)
            sleep_while(member.launch, launch);
        if (work_ == nullptr) return;
        const int count = count_;
        (*work_)(number);
        if (done_.fetch_add(1, std::memory_order_release) + 1 == count) wake_all(done_);
    }
}

Crew& crew() {
    static Crew all;
    return all;
}

}  // namespace ringshard::test
