#pragma once

#include <string_view>

namespace ringshard {

// JSON that is nested so deeply that walking through it could use up the stack: no file of ours is.
bool is_nested_deeply(std::string_view json);

}  // namespace ringshard
