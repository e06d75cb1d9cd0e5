#include "ringshard/base/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iomanip>
#include <map>
#include <numeric>
#include <sstream>

namespace ringshard {

std::string fill_holes(std::string_view pattern, std::initializer_list<TextPart> values) {
    std::ostringstream out;
    const TextPart* value = values.begin();
    while (!pattern.empty()) {
        const size_t brace = std::min(pattern.find_first_of("{}"), pattern.size());
        out << pattern.substr(0, brace);
        pattern.remove_prefix(brace);
        if (pattern.starts_with("{}"))
            (value++)->write(out);
        else if (!pattern.empty())
            out << pattern.front();
        pattern.remove_prefix(std::min<size_t>(2, pattern.size()));
    }
    return out.str();
}

std::string join_parts(std::initializer_list<TextPart> parts) {
    std::ostringstream out;
    for (const TextPart& part : parts) part.write(out);
    return out.str();
}

std::string shape_text(const std::vector<int64_t>& shape) {
    std::vector<std::string> sizes;
    for (const int64_t size : shape) sizes.push_back(concat(size));
    return format_text("[{}]", join(sizes, ", "));
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
    std::string whole;
    for (size_t i = 0; i < parts.size(); ++i) {
        if (i > 0) whole += separator;
        whole += parts[i];
    }
    return whole;
}

std::vector<std::string> split(std::string_view whole, char separator) {
    std::vector<std::string> parts;
    for (size_t begin = 0;;) {
        const size_t end = whole.find(separator, begin);
        parts.emplace_back(whole.substr(begin, end - begin));
        if (end == std::string_view::npos) return parts;
        begin = end + 1;
    }
}

std::string_view trim(std::string_view padded) {
    const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
    while (!padded.empty() && is_space(padded.front())) padded.remove_prefix(1);
    while (!padded.empty() && is_space(padded.back())) padded.remove_suffix(1);
    return padded;
}

std::string lower_case(std::string_view mixed) {
    std::string lower(mixed);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return lower;
}

std::string upper_case(std::string_view mixed) {
    std::string upper(mixed);
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return upper;
}

std::optional<int64_t> read_whole_number(std::string_view digits) {
    int64_t value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [read_to, error] = std::from_chars(digits.data(), end, value);
    return error == std::errc() && read_to == end ? std::optional(value) : std::nullopt;
}

std::string shortest(double value) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    return {digits.data(), end};
}

std::string human_bytes(double bytes) {
    static constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < units.size()) {
        bytes /= 1024;
        ++unit;
    }
    std::ostringstream out;
    out << std::fixed << std::setprecision(unit == 0 || bytes >= 100 ? 0 : 1) << bytes << ' '
        << units[unit];
    return out.str();
}

std::optional<int64_t> read_bytes(std::string_view text) {
    text = trim(text);
    double number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (read.ec != std::errc()) return std::nullopt;
    const std::string unit =
        upper_case(trim(text.substr(static_cast<size_t>(read.ptr - text.data()))));
    static const std::map<std::string, double> units{{"", 1},     {"B", 1},    {"KB", 1e3},
                                                     {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}};
    const auto found = units.find(unit);
    if (found == units.end()) return std::nullopt;
    const double bytes = std::round(number * found->second);
    if (!(bytes >= 1 && bytes < 9e18)) return std::nullopt;
    return static_cast<int64_t>(bytes);
}

namespace {

// Levenshtein distance with transposition of neighbours counted as one.
size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<size_t> before_last(b.size() + 1);
    std::vector<size_t> last(b.size() + 1);
    std::vector<size_t> row(b.size() + 1);
    std::iota(last.begin(), last.end(), size_t{0});
    for (size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before_last[j - 2] + 1);
        }
        before_last.swap(last);
        last.swap(row);
    }
    return last[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view misspelt, const std::vector<std::string>& known) {
    std::string best;
    size_t best_distance = std::max<size_t>(2, misspelt.size() / 3) + 1;
    for (const std::string& name : known) {
        const size_t distance = edit_distance(misspelt, name);
        if (distance < best_distance) {
            best_distance = distance;
            best = name;
        }
    }
    return best;
}

}  // namespace ringshard
