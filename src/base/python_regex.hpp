#pragma once

#include <string>
#include <string_view>

#include "ringshard/base/expected.hpp"

namespace ringshard {

// Translates a regular expression of Python's re to PCRE2. Fails on constructs that only one of the
// two has, or that mean something else there.
Expected<std::string> from_python_regex(std::string_view pattern);

}  // namespace ringshard
