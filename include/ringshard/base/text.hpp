#pragma once

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace ringshard {

// concat("cp_size ", 3, " does not divide ", 8)
inline std::string concat() { return {}; }
template <class... Parts>
std::string concat(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::vector<std::string> split(std::string_view whole, char separator);
std::string_view trim(std::string_view padded);
std::string lower_case(std::string_view mixed);
std::string upper_case(std::string_view mixed);

// Reads a whole number: a sign and digits, nothing else. Returns nothing for any other text.
std::optional<int64_t> read_whole_number(std::string_view digits);

// The shortest decimal form that reads back as the same double: 2e-05, 0.1, 3.
std::string shortest(double value);

// Bytes for people: "512 B", "1.5 MiB".
std::string human_bytes(double bytes);

// "5GB", "1.5 MB" or "4096": bytes, in powers of 1000 as transformers counts them; nothing if it is
// no such text, or less than one byte.
std::optional<int64_t> read_bytes(std::string_view text);

// Returns the known name nearest to a misspelt one; empty if none is near.
std::string nearest_name(std::string_view misspelt, const std::vector<std::string>& known);

}  // namespace ringshard
