#include "launches.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ringshard::test {

namespace {

struct Kernel {
    std::string file;
    std::string program;
    int launches;
};

// Made when the first kernel registers itself.
std::vector<Kernel>& kernels() {
    static std::vector<Kernel> all;
    return all;
}

std::string readable(const char* name) {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> text(
        abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
    return status == 0 ? text.get() : name;
}

template <class Key>
std::string without_launches(Key key) {
    std::map<std::string, int> launches;
    for (const Kernel& kernel : kernels()) launches[key(kernel)] += kernel.launches;
    std::string lines;
    for (const auto& [name, count] : launches)
        if (count == 0) lines += name + "\n";
    return lines;
}

}  // namespace

int register_kernel(const char* file, const char* program) {
    const std::string path = file;
    kernels().push_back({path.substr(path.rfind('/') + 1), readable(program), 0});
    return static_cast<int>(kernels().size()) - 1;
}

void check_room(int64_t blocks, size_t shared_bytes) {
    constexpr int64_t most_blocks = (int64_t{1} << 31) - 1;
    constexpr size_t most_shared = 99 * 1024;    // of a block on compute capability 8.6 and 12
    constexpr size_t for_reductions = 2 * 1024;  // the two buffers of a team's warps
    if (blocks > most_blocks || shared_bytes + for_reductions > most_shared)
        throw std::runtime_error("a launch of " + std::to_string(blocks) + " blocks of " +
                                 std::to_string(shared_bytes) + " bytes of shared memory");
}

void note_launch(int kernel) { kernels().at(static_cast<size_t>(kernel)).launches += 1; }

std::string files_that_did_not_run() {
    return without_launches([](const Kernel& kernel) { return kernel.file; });
}

std::string programs_that_did_not_run() {
    return without_launches(
        [](const Kernel& kernel) { return kernel.file + ": " + kernel.program; });
}

}  // namespace ringshard::test
