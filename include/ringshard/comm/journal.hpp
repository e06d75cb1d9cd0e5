#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ringshard/base/byte_counter.hpp"
#include "ringshard/base/timer.hpp"

namespace ringshard::comm {

class Journal;

// An operation of a group, as its page has it. Times are seconds on the journal's clock.
struct JournalEntry {
    int64_t number = 0;     // in its group, from 1: the same on all its ranks
    const char* what = "";  // lives as long as the program
    int64_t bytes = 0;      // of what one rank gives or gets, whichever is more
    double began = 0;       // when this rank came to it
    double ended = -1;      // below zero: under way
};

// What is known of the operations of one group on this rank.
struct PageState {
    std::string name;
    int64_t leader = 0;  // rank in the world of the first of the group
    int64_t copy = 0;    // so many groups of this name and leader were made before
    int64_t begun = 0;
    int64_t ended = 0;
    int64_t awaited = 0;               // number of the operation that a thread waits for; 0: none
    bool is_main_waiting = false;      // and it is the thread that trains
    std::vector<JournalEntry> last{};  // oldest first
    bool is_same_group(const PageState& other) const {
        return name == other.name && leader == other.leader && copy == other.copy;
    }
};

// A group's page in the journal. Operations of a group end in the order in which they begin.
class JournalPage {
public:
    JournalPage(std::shared_ptr<Journal> journal, PageState about)
        : journal_(std::move(journal)), about_(std::move(about)) {}

    int64_t begin(const char* what, int64_t bytes);  // the number of the operation
    void end(int64_t number);

    // While it lives, this thread waits for that operation.
    class Waiting {
    public:
        Waiting(JournalPage& page, int64_t number);
        ~Waiting();
        Waiting(const Waiting&) = delete;
        Waiting& operator=(const Waiting&) = delete;

    private:
        JournalPage& page_;
        Timer timer_;
    };
    // An operation that the caller waits for from its begin to its end. One that an exception
    // leaves has not ended.
    class Operation {
    public:
        Operation(JournalPage& page, const char* what, int64_t bytes);
        ~Operation();

    private:
        JournalPage& page_;
        int64_t number_;
        int exceptions_at_birth_;
        Waiting waiting_;
    };

    // For a backend whose operations end beside the host: `refresh` notes what has ended, `abort`
    // ends what never will. Both are called from other threads.
    void set_backend(std::function<void()> refresh, std::function<void()> abort);

    Journal& journal() const { return *journal_; }
    PageState state() const;
    void abort() const;

private:
    static constexpr size_t kept = 16;  // operations

    std::shared_ptr<Journal> journal_;
    mutable std::mutex mutex_;
    PageState about_;
    std::array<JournalEntry, kept> last_{};
    mutable std::mutex backend_mutex_;
    std::function<void()> refresh_;
    std::function<void()> abort_;
};

// What this process does together with others, and what the thread that trains is doing: for the
// moment when it does not get on. Any thread may write into it and look at it.
class Journal : public std::enable_shared_from_this<Journal> {
public:
    // The calling thread is the one whose waiting counts.
    Journal() : main_(std::this_thread::get_id()) {}

    std::shared_ptr<JournalPage> open_page(std::string name, int64_t leader);

    // What the thread that trains is doing from now on, in words that live as long as the program.
    void doing(const char* what) {
        doing_ = what;
        doing_since_ = clock_.seconds();
    }
    const char* what_is_done() const { return doing_; }
    double seconds_in_it() const { return clock_.seconds() - doing_since_; }

    // Of files that this process reads or writes: checkpoints, models.
    ByteCounter& bytes() { return bytes_; }

    double now() const { return clock_.seconds(); }
    std::vector<PageState> pages() const;
    // Ends what runs on devices and will not end by itself; the process is about to end.
    void abort_backends() const;

    // What the thread that trains has spent waiting for others so far.
    double seconds_waited() const { return seconds_waited_; }
    bool is_main_thread() const { return std::this_thread::get_id() == main_; }
    void add_wait(double seconds) { seconds_waited_ += seconds; }

private:
    std::vector<std::shared_ptr<JournalPage>> living_pages() const;

    Timer clock_;
    std::thread::id main_;
    std::atomic<const char*> doing_ = "starting";
    std::atomic<double> doing_since_ = 0;
    ByteCounter bytes_;
    double seconds_waited_ = 0;  // the main thread's alone
    mutable std::mutex mutex_;
    std::vector<std::weak_ptr<JournalPage>> pages_;
    std::vector<std::pair<std::string, int64_t>> opened_;  // name and leader of every page so far
};

}  // namespace ringshard::comm
