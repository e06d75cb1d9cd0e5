#include <algorithm>
#include <unordered_map>

#include "compare.hpp"
#include "printing.hpp"
#include "run.hpp"
#include "text_searching.hpp"
#include "unicode/python_characters.hpp"

// Methods of Python's str.
namespace ringshard::text::jinja {

namespace {

Datum made(Run& run, std::string text) { return run.heap.text(std::move(text)); }

template <std::string (*map)(std::string_view)>
Datum mapped(Run& run, const Datum& self, Arguments& arguments) {
    const Bound bound(arguments, "the method", {});
    run.step(1 + self.text().size() / 64);
    return made(run, map(self.text()));
}

// Strips white space if `chars` is not given.
Datum stripped(Run& run, const Datum& self, Arguments& arguments, bool left, bool right) {
    const Bound bound(arguments, "strip", {"chars"});
    std::string_view text = self.text();
    run.step(1 + text.size() / 64);
    if (!bound.has(0) || bound[0].is(Kind::none)) {
        if (left) text = strip_left(text);
        if (right) text = strip_right(text);
        return {self, text};
    }
    std::u32string characters;
    for (std::string_view rest = bound.text_or(0, ""); !rest.empty();)
        characters += take_code_point(rest);
    const auto goes = [&](char32_t c) { return characters.find(c) != std::u32string::npos; };
    for (std::string_view rest = text; left && !rest.empty() && goes(take_code_point(rest));)
        text = rest;
    for (std::string_view rest = text; right && !rest.empty() && goes(take_last_code_point(rest));)
        text = rest;
    return {self, text};
}

Datum strip_method(Run& run, const Datum& self, Arguments& arguments) {
    return stripped(run, self, arguments, true, true);
}
Datum lstrip(Run& run, const Datum& self, Arguments& arguments) {
    return stripped(run, self, arguments, true, false);
}
Datum rstrip(Run& run, const Datum& self, Arguments& arguments) {
    return stripped(run, self, arguments, false, true);
}

Datum split_method(Run& run, const Datum& self, Arguments& arguments) {
    return split_text(run, self, arguments, false);
}
Datum rsplit(Run& run, const Datum& self, Arguments& arguments) {
    return split_text(run, self, arguments, true);
}

Datum splitlines(Run& run, const Datum& self, Arguments& arguments) {
    const Bound bound(arguments, "splitlines", {"keepends"});
    const bool keep = bound.truth_or(0, false);
    std::vector<Datum> lines;
    run.step(1 + self.text().size() / 64);
    for (std::string_view rest = self.text(); !rest.empty();) {
        const std::string_view begin = rest;
        size_t content = begin.size();
        while (!rest.empty()) {
            const size_t before = begin.size() - rest.size();
            const char32_t c = take_code_point(rest);
            const bool ends = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                              c == 0x2028 || c == 0x2029;
            if (!ends) continue;
            content = before;
            if (c == '\r' && rest.starts_with('\n')) rest.remove_prefix(1);
            break;
        }
        lines.emplace_back(self, begin.substr(0, keep ? begin.size() - rest.size() : content));
        run.step();
    }
    return run.heap.list(std::move(lines));
}

Datum startswith(Run& run, const Datum& self, Arguments& arguments) {
    return ends_or_starts(run, self, arguments, "startswith", true);
}
Datum endswith(Run& run, const Datum& self, Arguments& arguments) {
    return ends_or_starts(run, self, arguments, "endswith", false);
}

Datum find_method_(Run& run, const Datum& self, Arguments& arguments) {
    return Datum(find_text(run, self, arguments, false));
}
Datum rfind(Run& run, const Datum& self, Arguments& arguments) {
    return Datum(find_text(run, self, arguments, true));
}
Datum index(Run& run, const Datum& self, Arguments& arguments) {
    const int64_t at = find_text(run, self, arguments, false);
    if (at < 0) fail("the text is not found");
    return Datum(at);
}
Datum rindex(Run& run, const Datum& self, Arguments& arguments) {
    const int64_t at = find_text(run, self, arguments, true);
    if (at < 0) fail("the text is not found");
    return Datum(at);
}
Datum count(Run& run, const Datum& self, Arguments& arguments) {
    return Datum(count_text(run, self, arguments));
}

Datum replace(Run& run, const Datum& self, Arguments& arguments) {
    if (!arguments.named.empty()) fail("replace takes its arguments without names");
    const Bound bound(arguments, "replace", {"old", "new", "count"}, 2);
    return made(run, replaced(run, self.text(), bound.text_or(0, ""), bound.text_or(1, ""),
                              bound.integer_or(2, -1)));
}

Datum join(Run& run, const Datum& self, Arguments& arguments) {
    const Bound bound(arguments, "join", {"iterable"}, 1);
    std::string text;
    size_t index = 0;
    for (const Datum& item : all_of(run, bound[0])) {
        if (!item.is(Kind::text))
            fail("join needs texts, but item {} is a {}: '| map(\"string\")' makes texts", index,
                 type_name(item));
        if (index++ > 0) text += self.text();
        text += item.text();
        run.check_size(text.size(), 1);
    }
    return made(run, std::move(text));
}

template <bool (*holds)(char32_t)>
Datum every(Run& run, const Datum& self, Arguments& arguments) {
    const Bound bound(arguments, "the method", {});
    run.step(1 + self.text().size() / 64);
    std::string_view rest = self.text();
    if (rest.empty()) return Datum(false);
    while (!rest.empty())
        if (!holds(take_code_point(rest))) return Datum(false);
    return Datum(true);
}

Datum is_upper_method(Run&, const Datum& self, Arguments&) { return Datum(is_upper(self.text())); }
Datum is_lower_method(Run&, const Datum& self, Arguments&) { return Datum(is_lower(self.text())); }
Datum is_title_method(Run&, const Datum& self, Arguments&) { return Datum(is_title(self.text())); }
Datum is_ascii_method(Run&, const Datum& self, Arguments&) { return Datum(is_ascii(self.text())); }

Datum is_printable_method(Run&, const Datum& self, Arguments&) {
    for (std::string_view rest = self.text(); !rest.empty();)
        if (!is_printable(take_code_point(rest))) return Datum(false);
    return Datum(true);
}

Datum is_identifier(Run&, const Datum& self, Arguments&) {
    std::string_view rest = self.text();
    if (rest.empty()) return Datum(false);
    if (!starts_name(take_code_point(rest))) return Datum(false);
    while (!rest.empty())
        if (!is_name_part(take_code_point(rest))) return Datum(false);
    return Datum(true);
}

// Pads to a width in code points.
Datum filled(Run& run, const Datum& self, Arguments& arguments, std::string_view name, char align) {
    const Bound bound(arguments, name, {"width", "fillchar"}, 1);
    const std::string_view fill = bound.text_or(1, " ");
    if (count_code_points(fill) != 1) fail("{} fills with one character", name);
    const int64_t width = bound.integer_or(0, 0);
    return made(run, aligned(run, self.text(), width, align, fill));
}
Datum ljust(Run& run, const Datum& self, Arguments& arguments) {
    return filled(run, self, arguments, "ljust", '<');
}
Datum rjust(Run& run, const Datum& self, Arguments& arguments) {
    return filled(run, self, arguments, "rjust", '>');
}
Datum center(Run& run, const Datum& self, Arguments& arguments) {
    return filled(run, self, arguments, "center", '^');
}

Datum zfill(Run& run, const Datum& self, Arguments& arguments) {
    const Bound bound(arguments, "zfill", {"width"}, 1);
    std::string_view text = self.text();
    const bool is_signed = text.starts_with('-') || text.starts_with('+');
    const std::string_view sign = text.substr(0, is_signed ? 1 : 0);
    const int64_t width = bound.integer_or(0, 0) - (is_signed ? 1 : 0);
    return made(run, concat(sign, aligned(run, text.substr(sign.size()), width, '>', "0")));
}

Datum removeprefix(Run&, const Datum& self, Arguments& arguments) {
    const Bound bound(arguments, "removeprefix", {"prefix"}, 1);
    const std::string_view prefix = bound.text_or(0, "");
    if (!self.text().starts_with(prefix)) return self.without_markup();
    return {self, self.text().substr(prefix.size())};
}

Datum removesuffix(Run&, const Datum& self, Arguments& arguments) {
    const Bound bound(arguments, "removesuffix", {"suffix"}, 1);
    const std::string_view suffix = bound.text_or(0, "");
    if (!self.text().ends_with(suffix)) return self.without_markup();
    return {self, self.text().substr(0, self.text().size() - suffix.size())};
}

Datum partition(Run& run, const Datum& self, Arguments& arguments) {
    const Bound bound(arguments, "partition", {"sep"}, 1);
    return parted(run, self, bound.text_or(0, ""), bound[0], false);
}
Datum rpartition(Run& run, const Datum& self, Arguments& arguments) {
    const Bound bound(arguments, "rpartition", {"sep"}, 1);
    return parted(run, self, bound.text_or(0, ""), bound[0], true);
}

Datum expandtabs(Run& run, const Datum& self, Arguments& arguments) {
    const Bound bound(arguments, "expandtabs", {"tabsize"});
    const int64_t size = std::clamp<int64_t>(bound.integer_or(0, 8), 0, 1000);
    std::string text;
    int64_t column = 0;
    for (std::string_view rest = self.text(); !rest.empty();) {
        const char32_t c = take_code_point(rest);
        if (c == '\t') {
            const int64_t spaces = size > 0 ? size - column % size : 0;
            text.append(static_cast<size_t>(spaces), ' ');
            column += spaces;
            run.check_size(text.size(), 1);
            continue;
        }
        append_code_point(text, c);
        column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    return made(run, std::move(text));
}

Datum format(Run& run, const Datum& self, Arguments& arguments) {
    return made(run, brace_format(run, self.text(), arguments));
}

Datum format_map(Run& run, const Datum& self, Arguments& arguments) {
    const Bound bound(arguments, "format_map", {"mapping"}, 1);
    if (!bound[0].is(Kind::dict)) fail("format_map needs a dict, not {}", type_name(bound[0]));
    Arguments members;
    for (const auto& [name, value] : bound[0].as<Dict>().members)
        if (name.is(Kind::text)) members.named.emplace_back(name, value);
    return made(run, brace_format(run, self.text(), members));
}

[[noreturn]] Datum not_for_text(Run&, const Datum&, Arguments&) {
    fail("encode, maketrans and translate are not supported: templates work on text");
}

constexpr std::array<MethodEntry, 47> methods{{
    {"capitalize", mapped<capitalize>},
    {"casefold", mapped<casefold>},
    {"center", center},
    {"count", count},
    {"encode", not_for_text},
    {"endswith", endswith},
    {"expandtabs", expandtabs},
    {"find", find_method_},
    {"format", format},
    {"format_map", format_map},
    {"index", index},
    {"isalnum", every<is_alphanumeric>},
    {"isalpha", every<is_letter>},
    {"isascii", is_ascii_method},
    {"isdecimal", every<is_decimal>},
    {"isdigit", every<is_digit>},
    {"isidentifier", is_identifier},
    {"islower", is_lower_method},
    {"isnumeric", every<is_numeric>},
    {"isprintable", is_printable_method},
    {"isspace", every<is_space>},
    {"istitle", is_title_method},
    {"isupper", is_upper_method},
    {"join", join},
    {"ljust", ljust},
    {"lower", mapped<lower>},
    {"lstrip", lstrip},
    {"maketrans", not_for_text},
    {"partition", partition},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {"replace", replace},
    {"rfind", rfind},
    {"rindex", rindex},
    {"rjust", rjust},
    {"rpartition", rpartition},
    {"rsplit", rsplit},
    {"rstrip", rstrip},
    {"split", split_method},
    {"splitlines", splitlines},
    {"startswith", startswith},
    {"strip", strip_method},
    {"swapcase", mapped<swapcase>},
    {"title", mapped<title>},
    {"translate", not_for_text},
    {"upper", mapped<upper>},
    {"zfill", zfill},
}};

}  // namespace

const MethodEntry* find_text_method(std::string_view name) {
    static const auto known = [] {
        std::unordered_map<std::string_view, const MethodEntry*> index_of;
        for (const MethodEntry& method : methods) index_of.emplace(method.name, &method);
        return index_of;
    }();
    const auto found = known.find(name);
    return found == known.end() ? nullptr : found->second;
}

}  // namespace ringshard::text::jinja
