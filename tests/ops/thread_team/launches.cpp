#include "launches.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <map>
#include <memory>
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

void note_launch(int kernel) { kernels().at(static_cast<size_t>(kernel)).launches += 1; }

std::string files_that_did_not_run() {
    return without_launches([](const Kernel& kernel) { return kernel.file; });
}

std::string programs_that_did_not_run() {
    return without_launches(
        [](const Kernel& kernel) { return kernel.file + ": " + kernel.program; });
}

}  // namespace ringshard::test
