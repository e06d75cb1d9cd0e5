#pragma once

#include <string>
#include <vector>

namespace ringshard::config {

struct ShellWord {
    std::string text;
    int line = 1;
};

// Splits a shell script into commands of words. Quotes, escapes, comments, continued lines, sums of
// whole numbers (`$((a / 2))`, `$(expr $a / 2)`) and variables that the script itself assigns are
// read; loops and conditions are not followed. What is not read stays in the words, with its $.
std::vector<std::vector<ShellWord>> read_shell(const std::string& script);

}  // namespace ringshard::config
