#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace ringshard::run {

// The arguments of `trainer plan`.
struct PlanArgs {
    int64_t world = 1;               // ranks
    std::optional<int64_t> nodes{};  // else as many as the ranks need, eight to a node
    std::string device = "cpu";      // a name or a file: plan/devices.hpp
    std::string interconnect{};      // "nvlink+ib400"; empty: the usual links of the device
    int64_t documents = 1;           // in a row, equally long
    bool finds_longest = false;      // the longest row that fits
    bool suggests = false;           // layouts, the best first
    std::string curves{};            // a folder for what becomes of it on more ranks
    bool shows_device = false;       // prints its figures, as a file that --gpu reads
    bool shows_parts = false;        // of the time of a step, by kernels
    bool as_json = false;
    std::vector<std::string> settings{};  // the flags of training

    int64_t num_nodes() const {
        constexpr int64_t usual = 8;  // ranks to a node
        return nodes.value_or((world + usual - 1) / usual);
    }
    int64_t ranks_per_node() const { return std::max<int64_t>(1, world / num_nodes()); }
};

}  // namespace ringshard::run
