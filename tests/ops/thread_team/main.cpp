// Runs the kernels of a GPU on threads of the host, in a build with a sanitizer:
//   some      a part of the cases, and at least one of each file
//   all       all cases, and so every program for every type of numbers and size of packs
//   all I N   the cases I, I + N, I + 2N... of all
//   count     no kernel: whether all cases launch every program, and whether launches of all widths
//             have room on a GPU
//   NAME      some of the cases of one file of this folder
#include <pthread.h>

#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include "compare.hpp"
#include "launches.hpp"

using namespace ringshard::test;

namespace {

const std::map<std::string, void (*)(Part)> families = {
    {"attention", attention_cases}, {"delta", delta_cases},
    {"flat", flat_cases},           {"fp8", fp8_cases},
    {"head", head_cases},           {"loss", loss_cases},
    {"norm", norm_cases},           {"row", row_cases}};

// Of thousands of threads.
void use_small_stacks() {
    constexpr size_t bytes = size_t{1} << 20;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, bytes);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
}

int run(const std::string& which) {
    if (const auto family = families.find(which); family != families.end()) {
        family->second(Part::some);
        return 0;
    }
    const Part part = which == "some" ? Part::some : Part::all;
    for (const auto& [name, cases] : families) cases(part);
    if (selection().of > 1) return 0;
    const std::string left =
        part == Part::all ? programs_that_did_not_run() : files_that_did_not_run();
    if (which == "count") launches_of_all_widths();
    if (left.empty()) return 0;
    std::fprintf(stderr, "these did not run: give them a case in tests/ops/thread_team\n%s",
                 left.c_str());
    return 1;
}

}  // namespace

int main(int count, char** arguments) {
    use_small_stacks();
    try {
        const std::string which = count > 1 ? arguments[1] : "some";
        selection().only_counts_launches = which == "count";
        if (count == 4) {
            selection().number = std::stoi(arguments[2]);
            selection().of = std::stoi(arguments[3]);
        }
        return run(which);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
