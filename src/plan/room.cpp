#include "ringshard/plan/room.hpp"

#include <vector>

namespace ringshard::plan {

int64_t held_bytes(const StepPlan& plan, const Device& device) {
    return plan.peak + (device.is_host ? plan.host_bytes() : 0);
}

std::optional<Shortage> find_shortage(const StepPlan& plan, const Device& device,
                                      int64_t ranks_per_node) {
    const auto of_a_node = [&](int64_t bytes) {
        return static_cast<double>(ranks_per_node * bytes);
    };
    std::vector<Shortage> needs{
        {device.is_host ? "memory of a rank" : "memory of the device",
         static_cast<double>(held_bytes(plan, device)), device.memory_bytes},
        {"room for files of a node", of_a_node(plan.scratch_bytes), device.scratch_room}};
    if (!device.is_host)
        needs.push_back(
            {"host memory of a node", of_a_node(plan.memory.staging), device.host_memory});
    for (const Shortage& need : needs)
        if (need.needed > need.there) return need;
    return std::nullopt;
}

SaveTime estimate_save(const StepPlan& plan, const Device& device, int64_t ranks_per_node) {
    const auto copy = static_cast<double>(plan.memory.save_copy);
    const auto ranks = static_cast<double>(ranks_per_node);
    SaveTime time;
    time.is_copied =
        device.is_host || ranks * static_cast<double>(plan.host_bytes()) <= device.host_memory;
    const double writing = ranks * static_cast<double>(plan.saved_bytes) / device.save_bytes;
    time.stall = time.is_copied ? copy / device.host_copy_bytes : writing;
    time.durable = time.is_copied ? time.stall + writing : writing;
    return time;
}

}  // namespace ringshard::plan
