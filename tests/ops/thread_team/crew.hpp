#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <thread>

namespace ringshard::test {

// Threads of the host that run one launch after the other, since making one takes longer than most
// launches. Within a launch a thread runs one thread of the GPU, and sees nothing of the others;
// launches follow each other.
class Crew {
public:
    Crew() = default;
    Crew(const Crew&) = delete;
    Crew& operator=(const Crew&) = delete;
    ~Crew();

    // Calls work(0) ... work(count - 1), each in a thread of its own, and waits for all.
    void run(int count, const std::function<void(int)>& work);

private:
    struct Member {
        std::atomic<int> launch = 0;  // that it may begin
        std::jthread thread{};
    };
    void serve(Member& member, int number);

    std::deque<Member> members_;
    const std::function<void(int)>* work_ = nullptr;  // null: the threads end
    int count_ = 0;
    std::atomic<int> done_ = 0;
};

// Returns that of this program.
Crew& crew();

}  // namespace ringshard::test
