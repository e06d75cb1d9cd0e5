#pragma once

#include "common.hpp"

// Reads from config.json which layers attend through a sliding window.
namespace ringshard::model {

// Gives these blocks the window of sliding_window; complains if there are such blocks and no
// length.
void set_windows(ConfigReader& config, ModelSpec& spec, const std::vector<bool>& windows,
                 std::optional<int64_t> window);
// Chooses the blocks by layer_types, or else by `usual`, if use_sliding_window says that the model
// has windows.
void read_windows_in_use(ConfigReader& config, ModelSpec& spec, std::optional<int64_t> window,
                         const std::function<bool(size_t)>& usual);
void refuse_window_without_length(ConfigReader& config);

}  // namespace ringshard::model
