#pragma once

#include <string>

namespace ringshard {

// Quotes a word for a POSIX shell where it needs quotes: commands in messages can be copied.
std::string shell_word(const std::string& word);

}  // namespace ringshard
