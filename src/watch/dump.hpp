#pragma once

#include <filesystem>
#include <string>

#include "ringshard/comm/journal.hpp"

namespace ringshard::watch {

// Prepares the calling thread, which trains, for being asked where it is.
class StackWitness {
public:
    StackWitness();
    ~StackWitness();
    StackWitness(const StackWitness&) = delete;
    StackWitness& operator=(const StackWitness&) = delete;

    // Appends the thread's backtrace to the file; false if it does not answer within a second.
    bool testify(const std::filesystem::path& file) const;

private:
    pthread_t thread_;
};

// Writes all that is known of this process while it does not get on: `headline`, what the journal
// holds, the states of its threads and where the one that trains is.
void write_dump(const std::filesystem::path& file, const std::string& headline,
                const comm::Journal& journal, const StackWitness& witness);

}  // namespace ringshard::watch
