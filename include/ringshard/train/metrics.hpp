#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/train/trainer.hpp"

namespace ringshard::train {

// Steps since the last line, and what a line says of them: loss, entropy and accuracy are means
// over the steps, the rest is the last step's.
class MetricsWindow {
public:
    void add(const StepNumbers& numbers);
    bool is_empty() const { return steps_.empty(); }
    StepNumbers take();  // step_tokens and seconds are sums

private:
    std::vector<StepNumbers> steps_;
};

// output_dir/metrics.jsonl: one object per line. Lines carry their attempt, and what a later
// attempt did not build on is void (checkpoint/attempts.hpp).
class MetricsFile {
public:
    MetricsFile(std::filesystem::path output_dir, int64_t attempt);

    // Takes out void lines, and a line that a crash cut short. For the newest attempt, at its
    // start. Readers of a file that was not cleaned leave out what Attempts::is_void() says.
    std::optional<Failure> clean() const;
    // Fails if a newer attempt has begun.
    std::optional<Failure> append(const StepNumbers& numbers, double seconds_per_step) const;

private:
    std::filesystem::path file_;
    std::filesystem::path output_dir_;
    int64_t attempt_;
};

// "step 120/2000 6.0% loss 1.8342 gnorm 0.91 lr 1.9e-05 tok/s 412.3k eta 0:13:44"
std::string progress_line(const StepNumbers& numbers, int64_t num_steps, double seconds_per_step);

}  // namespace ringshard::train
