#pragma once

#include <optional>
#include <string>

#include "ringshard/plan/devices.hpp"
#include "ringshard/plan/step_plan.hpp"

namespace ringshard::plan {

// The bytes that a rank holds in the memory of its device. On the CPU this includes the staging
// buffers and the copy of a save.
int64_t held_bytes(const StepPlan& plan, const Device& device);

// Something there is too little of.
struct Shortage {
    std::string of;  // "memory of the device"
    double needed;   // bytes, like the next
    double there;
};
// Returns the resource that these ranks lack first. The copy of a save is not among it where there
// is a device beside the host: without room for it a save takes longer, and nothing else happens.
std::optional<Shortage> find_shortage(const StepPlan& plan, const Device& device,
                                      int64_t ranks_per_node);

// The cost of a checkpoint, in seconds from the end of its step.
struct SaveTime {
    double stall = 0;       // training stands still
    double durable = 0;     // until it is whole on disk
    bool is_copied = true;  // the host has room for a copy; without, it stalls until all is written
};
SaveTime estimate_save(const StepPlan& plan, const Device& device, int64_t ranks_per_node);

}  // namespace ringshard::plan
