#pragma once

#include "common.hpp"

// Which layers look through a window, as config.json says it.
namespace ringshard::model {

// Gives blocks the window of sliding_window; complains where there are such blocks and no length.
void set_windows(ConfigReader& config, ModelSpec& spec, const std::vector<bool>& windows,
                 std::optional<int64_t> window);
// The same by layer_types, or by `usual`, if use_sliding_window says that the model has windows.
void read_windows_in_use(ConfigReader& config, ModelSpec& spec, std::optional<int64_t> window,
                         const std::function<bool(size_t)>& usual);
void refuse_window_without_length(ConfigReader& config);

}  // namespace ringshard::model
