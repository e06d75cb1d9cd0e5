#pragma once

#include <string>
#include <string_view>

namespace ringshard {

// Python writes NaN, Infinity and -Infinity into JSON, which lacks them. Returns the document with
// replacement(word) in the place of each word outside of strings.
std::string replace_python_numbers(std::string_view json,
                                   std::string (*replacement)(std::string_view word));

}  // namespace ringshard
