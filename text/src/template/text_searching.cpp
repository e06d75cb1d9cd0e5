#include "text_searching.hpp"

#include <algorithm>

#include "unicode/python_characters.hpp"

namespace ringshard::text::jinja {

namespace {

std::vector<Datum> split_at_space(Run& run, const Datum& self, int64_t most) {
    std::vector<Datum> parts;
    std::string_view rest = strip_left(self.text());
    while (!rest.empty()) {
        run.step();
        if (most >= 0 && static_cast<int64_t>(parts.size()) >= most) {
            parts.emplace_back(self, strip_right(rest));
            break;
        }
        std::string_view ahead = rest;
        std::string_view word_end = rest;
        while (!ahead.empty() && !is_space(take_code_point(ahead))) word_end = ahead;
        parts.emplace_back(self, rest.substr(0, rest.size() - word_end.size()));
        rest = strip_left(word_end);
    }
    return parts;
}

std::vector<Datum> split_at_space_from_right(Run& run, const Datum& self, int64_t most) {
    std::vector<Datum> parts;
    std::string_view rest = strip_right(self.text());
    while (!rest.empty()) {
        run.step();
        if (most >= 0 && static_cast<int64_t>(parts.size()) >= most) {
            parts.emplace_back(self, strip_left(rest));
            break;
        }
        std::string_view ahead = rest;
        std::string_view before_word = rest;
        while (!ahead.empty() && !is_space(take_last_code_point(ahead))) before_word = ahead;
        parts.emplace_back(self, rest.substr(before_word.size()));
        rest = strip_right(before_word);
    }
    std::ranges::reverse(parts);
    return parts;
}

std::vector<Datum> split_at(Run& run, const Datum& self, std::string_view separator, int64_t most,
                            bool from_right) {
    std::vector<Datum> parts;
    std::string_view rest = self.text();
    while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
        const size_t at = from_right ? rest.rfind(separator) : rest.find(separator);
        if (at == std::string_view::npos) break;
        run.step();
        if (from_right) {
            parts.emplace_back(self, rest.substr(at + separator.size()));
            rest = rest.substr(0, at);
        } else {
            parts.emplace_back(self, rest.substr(0, at));
            rest.remove_prefix(at + separator.size());
        }
    }
    parts.emplace_back(self, rest);
    if (from_right) std::ranges::reverse(parts);
    return parts;
}

// The part of a text within the optional bounds of find() and similar methods, in bytes.
struct Window {
    std::string_view text;
    size_t skipped_code_points = 0;
    bool is_empty_beyond = false;  // begins after the end: does not even contain ""
};

Window window_of(const Datum& self, const Bound& bound, size_t first) {
    const auto size = static_cast<int64_t>(count_code_points(self.text()));
    const auto place = [&](size_t index, int64_t otherwise) {
        if (!bound.has(index) || bound[index].is(Kind::none)) return otherwise;
        int64_t at = bound.integer_or(index, 0);
        if (at < 0) at = std::max<int64_t>(at + size, 0);
        return at;
    };
    const int64_t begin = place(first, 0);
    const int64_t end = std::min(place(first + 1, size), size);
    if (begin > end) return {{}, 0, true};
    const size_t from = byte_of_code_point(self.text(), static_cast<size_t>(begin));
    const std::string_view rest = self.text().substr(from);
    return {rest.substr(0, byte_of_code_point(rest, static_cast<size_t>(end - begin))),
            static_cast<size_t>(begin)};
}

}  // namespace

Datum split_text(Run& run, const Datum& self, Arguments& arguments, bool from_right) {
    const Bound bound(arguments, from_right ? "rsplit" : "split", {"sep", "maxsplit"});
    const int64_t most = bound.integer_or(1, -1);
    run.step(1 + self.text().size() / 64);
    const Datum plain = self.without_markup();
    if (!bound.has(0) || bound[0].is(Kind::none))
        return run.heap.list(from_right ? split_at_space_from_right(run, plain, most)
                                        : split_at_space(run, plain, most));
    const std::string_view separator = bound.text_or(0, "");
    if (separator.empty()) fail("split needs a separator that is not empty");
    return run.heap.list(split_at(run, plain, separator, most, from_right));
}

Datum ends_or_starts(Run& run, const Datum& self, Arguments& arguments, std::string_view name,
                     bool starts) {
    const Bound bound(arguments, name, {"prefix", "start", "end"}, 1);
    run.step();
    const Window window = window_of(self, bound, 1);
    const auto fits = [&](const Datum& part) {
        if (!part.is(Kind::text))
            fail("{} needs a text or a tuple of texts, not {}", name, type_name(part));
        if (window.is_empty_beyond) return false;
        return starts ? window.text.starts_with(part.text()) : window.text.ends_with(part.text());
    };
    if (!bound[0].is(Kind::tuple)) {
        if (bound[0].is(Kind::undefined)) fail_undefined(bound[0]);
        return Datum(fits(bound[0]));
    }
    for (const Datum& part : bound[0].items())
        if (fits(part)) return Datum(true);
    return Datum(false);
}

int64_t find_text(Run& run, const Datum& self, Arguments& arguments, bool from_right) {
    const Bound bound(arguments, "find", {"sub", "start", "end"}, 1);
    const std::string_view part = bound.text_or(0, "");
    run.step(1 + self.text().size() / 64);
    const Window window = window_of(self, bound, 1);
    if (window.is_empty_beyond) return -1;
    const size_t at = from_right ? window.text.rfind(part) : window.text.find(part);
    if (at == std::string_view::npos) return -1;
    return static_cast<int64_t>(window.skipped_code_points +
                                count_code_points(window.text.substr(0, at)));
}

int64_t count_text(Run& run, const Datum& self, Arguments& arguments) {
    const Bound bound(arguments, "count", {"sub", "start", "end"}, 1);
    const std::string_view part = bound.text_or(0, "");
    run.step(1 + self.text().size() / 64);
    const Window window = window_of(self, bound, 1);
    if (window.is_empty_beyond) return 0;
    if (part.empty()) return static_cast<int64_t>(count_code_points(window.text)) + 1;
    int64_t count = 0;
    for (size_t at = window.text.find(part); at != std::string_view::npos;
         at = window.text.find(part, at + part.size()))
        ++count;
    return count;
}

std::string replaced(Run& run, std::string_view text, std::string_view old, std::string_view by,
                     int64_t count) {
    std::string out;
    run.step(1 + text.size() / 64);
    int64_t left = count < 0 ? INT64_MAX : count;
    if (old.empty()) {
        // Insert before each character and at the end.
        std::string_view rest = text;
        while (left > 0) {
            --left;
            out += by;
            run.check_size(out.size(), 1);
            if (rest.empty()) return out;
            append_code_point(out, take_code_point(rest));
        }
        out += rest;
        return out;
    }
    for (; left > 0; --left) {
        const size_t at = text.find(old);
        if (at == std::string_view::npos) break;
        out += text.substr(0, at);
        out += by;
        text.remove_prefix(at + old.size());
        run.check_size(out.size(), 1);
    }
    out += text;
    return out;
}

std::string aligned(Run& run, std::string_view text, int64_t width, char align,
                    std::string_view fill) {
    const auto size = static_cast<int64_t>(count_code_points(text));
    if (width <= size) return std::string(text);
    const int64_t missing = width - size;
    run.check_size(static_cast<uint64_t>(missing), fill.size());
    run.step(static_cast<uint64_t>(missing) / 16);
    // Like Python: the odd space goes left if the width is odd.
    const int64_t half = missing / 2 + (missing & width & 1);
    const int64_t left = align == '<' ? 0 : align == '>' ? missing : half;
    std::string out;
    for (int64_t i = 0; i < left; ++i) out += fill;
    out += text;
    for (int64_t i = left; i < missing; ++i) out += fill;
    return out;
}

Datum parted(Run& run, const Datum& self, std::string_view separator, const Datum& separator_datum,
             bool from_right) {
    if (separator.empty()) fail("partition needs a separator that is not empty");
    run.step(1 + self.text().size() / 64);
    const std::string_view text = self.text();
    const size_t at = from_right ? text.rfind(separator) : text.find(separator);
    const Datum plain = self.without_markup();
    if (at == std::string_view::npos) {
        const Datum nothing(std::string_view("", 0));
        return from_right ? run.heap.tuple({nothing, nothing, plain})
                          : run.heap.tuple({plain, nothing, nothing});
    }
    return run.heap.tuple({Datum(self, text.substr(0, at)), separator_datum,
                           Datum(self, text.substr(at + separator.size()))});
}

bool is_upper(std::string_view text) {
    bool any = false;
    while (!text.empty()) {
        const char32_t c = take_code_point(text);
        if (is_lower(c) || is_title(c)) return false;
        any = any || is_upper(c);
    }
    return any;
}

bool is_lower(std::string_view text) {
    bool any = false;
    while (!text.empty()) {
        const char32_t c = take_code_point(text);
        if (is_upper(c) || is_title(c)) return false;
        any = any || is_lower(c);
    }
    return any;
}

bool is_title(std::string_view text) {
    bool any = false;
    bool inside = false;
    while (!text.empty()) {
        const char32_t c = take_code_point(text);
        const bool big = is_upper(c) || is_title(c);
        if (big && inside) return false;
        if (is_lower(c) && !inside) return false;
        inside = big || is_lower(c);
        any = any || inside;
    }
    return any;
}

}  // namespace ringshard::text::jinja
