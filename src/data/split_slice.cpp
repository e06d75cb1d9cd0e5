#include "split_slice.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "ringshard/base/text.hpp"

namespace ringshard::data {

namespace {

constexpr std::string_view closest = "closest";
constexpr std::string_view drop_remainder = "pct1_dropremainder";

Failure malformed(const std::string& what) {
    return {ExitCode::settings,
            format_text("{}; a slice is name[from:to] in rows or percents, as train[:10%], "
                        "train[100:2000] or train[-5%:], and + adds slices",
                        what)};
}

// Accepts words of letters, digits and _, with dots between them.
bool is_split_name(std::string_view name) {
    const auto is_word = [](const std::string& word) {
        return !word.empty() && std::ranges::all_of(word, [](char c) {
            const auto byte = static_cast<unsigned char>(c);
            return byte >= 0x80 || std::isalnum(byte) != 0 || c == '_';
        });
    };
    return std::ranges::all_of(split(name, '.'), is_word);
}

struct Bound {
    std::optional<int64_t> number;
    bool is_percent = false;
};

// Reads "", "-5%" or "1_000".
Expected<Bound> read_bound(std::string_view text) {
    Bound bound;
    if (text.empty()) return bound;
    bound.is_percent = text.ends_with('%');
    std::string digits(text.substr(0, text.size() - (bound.is_percent ? 1 : 0)));
    const auto is_digit = [&](size_t at) {
        return at < digits.size() && std::isdigit(static_cast<unsigned char>(digits[at])) != 0;
    };
    for (size_t at = digits.find('_'); at != std::string::npos; at = digits.find('_', at)) {
        if (at == 0 || !is_digit(at - 1) || !is_digit(at + 1)) break;
        digits.erase(at, 1);
    }
    bound.number = digits.starts_with('+') ? std::nullopt : read_whole_number(digits);
    if (!bound.number) return malformed(format_text("'{}' is no whole number", text));
    if (bound.is_percent && (*bound.number > 100 || *bound.number < -100))
        return malformed(format_text("'{}' is beyond 100%", text));
    return bound;
}

// Reads the text in brackets.
std::optional<Failure> read_bounds(std::string_view text, SplitSlice& slice) {
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos) return malformed(format_text("'[{}]' has no colon", text));
    const auto from = read_bound(text.substr(0, colon));
    if (!from) return from.failure();
    const auto to = read_bound(text.substr(colon + 1));
    if (!to) return to.failure();
    slice.from = from.value().number;
    slice.to = to.value().number;
    slice.is_percent = from.value().is_percent || to.value().is_percent;
    const auto differs = [&](const Bound& bound) {
        return bound.number && bound.is_percent != slice.is_percent;
    };
    if (differs(from.value()) || differs(to.value()))
        return malformed(format_text("'[{}]' has percents beside row numbers", text));
    return std::nullopt;
}

Expected<SplitSlice> read_slice(std::string_view text) {
    SplitSlice slice;
    std::string_view rest = text;
    std::optional<std::string_view> rounding;
    if (rest.ends_with(')') && rest.find('(') != std::string_view::npos) {
        const size_t open = rest.find('(');
        rounding = rest.substr(open + 1, rest.size() - open - 2);
        rest = rest.substr(0, open);
    }
    if (const size_t open = rest.find('['); open != std::string_view::npos) {
        if (!rest.ends_with(']'))
            return malformed(format_text("'{}' has no closing bracket", text));
        if (auto failure = read_bounds(rest.substr(open + 1, rest.size() - open - 2), slice))
            return *failure;
        rest = rest.substr(0, open);
    }
    if (!is_split_name(rest)) return malformed(format_text("'{}' is no name of a split", rest));
    slice.split = rest;
    if (!rounding) return slice;
    if (*rounding != closest && *rounding != drop_remainder)
        return malformed(format_text("the rounding '{}' is neither {} nor {}", *rounding, closest,
                                     drop_remainder));
    if (!slice.is_percent) return malformed(format_text("'{}' rounds and has no percents", text));
    slice.drops_remainder = *rounding == drop_remainder;
    return slice;
}

}  // namespace

std::optional<int64_t> SplitSlice::rows_to_count() const {
    if (is_percent || !to || from.value_or(0) < 0 || *to < 0) return std::nullopt;
    return *to;
}

Expected<std::vector<SplitSlice>> read_splits(const std::string& text) {
    std::vector<SplitSlice> slices;
    for (const std::string& part : split(text, '+')) {
        auto slice = read_slice(trim(part));
        if (!slice) return slice.failure();
        slices.push_back(std::move(slice).value());
        const SplitSlice& first = slices.front();
        if (first.is_percent && slices.back().is_percent &&
            first.drops_remainder != slices.back().drops_remainder)
            return malformed(format_text("'{}' adds percents of two roundings", text));
    }
    return slices;
}

Expected<RowRange> rows_of(const SplitSlice& slice, int64_t num_rows) {
    if (slice.drops_remainder && num_rows < 100)
        return Failure{ExitCode::settings,
                       format_text("{} takes whole percents of the rows, and {} rows have none; "
                                   "leave it out, or name rows in place of percents",
                                   drop_remainder, num_rows)};
    const auto absolute = [&](int64_t bound) {
        if (!slice.is_percent) return bound;
        if (slice.drops_remainder) return bound * (num_rows / 100);
        const double share = static_cast<double>(bound * num_rows) / 100.0;
        return static_cast<int64_t>(std::nearbyint(share));
    };
    const auto within = [&](int64_t bound) {
        return std::clamp<int64_t>(bound < 0 ? num_rows + bound : bound, 0, num_rows);
    };
    return RowRange{within(slice.from ? absolute(*slice.from) : 0),
                    within(slice.to ? absolute(*slice.to) : num_rows)};
}

bool reaches_beyond(const SplitSlice& slice, int64_t num_rows) {
    const auto is_beyond = [&](const std::optional<int64_t>& bound) {
        return bound && !slice.is_percent && (*bound > num_rows || *bound < -num_rows);
    };
    return is_beyond(slice.from) || is_beyond(slice.to);
}

std::string to_text(const SplitSlice& slice) {
    if (slice.takes_all()) return slice.split;
    const auto bound = [&](const std::optional<int64_t>& number) {
        return number ? concat(*number, slice.is_percent ? "%" : "") : std::string();
    };
    return format_text("{}[{}:{}]{}", slice.split, bound(slice.from), bound(slice.to),
                       slice.drops_remainder ? format_text("({})", drop_remainder) : "");
}

}  // namespace ringshard::data
