#pragma once

#include "ringshard/plan/devices.hpp"
#include "ringshard/plan/step_plan.hpp"

#include <string>
#include <vector>

namespace ringshard::plan {

// A kernel, or several that do the same work, in a step.
struct TimePart {
    std::string name;  // "qkv, gradient of weights"
    std::string sum;   // the name of the sum of StepTime that has these seconds, as JSON has it
    double seconds = 0;
    double hidden = 0;  // seconds beside these that overlap with computation
    // Words by which a profile of a GPU tells the kernels. A kernel belongs to the part with the
    // longest word that is in its name.
    std::vector<std::string> kernels{};
};

// The time of a step by its parts, in seconds. Communication overlaps with computation as far as
// that is long enough: weights and gradients with the blocks, keys with attention.
struct StepTime {
    double products = 0;   // with weights
    double attention = 0;  // queries with keys
    double rows = 0;       // norms, activations and all that is bound by memory
    double loss = 0;       // logits to gradients
    double optimizer = 0;
    double exposed = 0;  // communication and offloading that do not overlap
    double total = 0;
    double tokens_per_second = 0;   // of the whole world
    double utilisation = 0;         // of the device's peak, by the operations of the model
    std::vector<TimePart> parts{};  // of the sums before `total`
};
StepTime estimate_seconds(const Question& question, const StepPlan& plan, const Device& device,
                          int64_t ranks_per_node);

}  // namespace ringshard::plan
