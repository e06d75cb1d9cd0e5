#pragma once

#include <string>

// Formats numbers for users.
namespace ringshard::report {

std::string number_text(double value);      // four digits: "0.3496", "13.71k", "2.222e-05"
std::string duration_text(double seconds);  // "3.2 ms", "41 s", "2 h 05 min"

}  // namespace ringshard::report
