#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ringshard::test {

// Returns the number of a kernel that is compiled into this test: a program for a type of numbers
// and a size of packs, in teams of one size. Called before main().
int register_kernel(const char* file, const char* program);
void note_launch(int kernel);
// Fails for a launch that a GPU of compute capability 8 or newer has no room for.
void check_room(int64_t blocks, size_t shared_bytes);

// Return the files of which no kernel has run, and the programs that have not run with teams of any
// size; empty if all have.
std::string files_that_did_not_run();
std::string programs_that_did_not_run();

}  // namespace ringshard::test
