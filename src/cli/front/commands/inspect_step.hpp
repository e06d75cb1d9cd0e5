#pragma once

#include <cstdint>
#include <filesystem>

namespace ringshard::cli {

struct StepToInspect {
    std::filesystem::path run;  // output_dir
    int64_t step = 0;
    int64_t most = 20;  // documents that are shown
    bool as_json = false;
};

// Prints the documents of a step of a run, those with the largest share of the gradient first, and
// the rows of the dataset that they are. Returns the exit code.
int inspect_step(const StepToInspect& wanted);

}  // namespace ringshard::cli
