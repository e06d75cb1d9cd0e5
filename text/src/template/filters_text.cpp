#include <algorithm>

#include "compare.hpp"
#include "filters.hpp"
#include "printing.hpp"
#include "text_searching.hpp"
#include "unicode/python_characters.hpp"

// Filters from text to text. They print an input of any type first.
namespace ringshard::text::jinja {

namespace {

// The input as text; Markup stays Markup.
struct Source {
    Source(Run& run, const Datum& input)
        : datum(input.is(Kind::text) ? input : run.heap.text(to_text(input))), text(datum.text()) {
        run.step(1 + text.size() / 64);
    }
    Datum made(Run& run, std::string result) const {
        const Datum made = run.heap.text(std::move(result));
        return datum.is_markup() ? made.as_markup() : made;
    }
    Datum datum;
    std::string_view text;
};

template <std::string (*map)(std::string_view)>
Datum mapped(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "the filter", {});
    const Source source(run, input);
    return source.made(run, map(source.text));
}

// Unlike the method: words begin after white space, hyphens and opening brackets.
Datum title_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "title", {});
    const Source source(run, input);
    const auto divides = [](char32_t c) {
        return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
    };
    std::string out;
    for (std::string_view rest = source.text; !rest.empty();) {
        std::string_view word = rest;
        std::string_view ahead = rest;
        const bool divider = divides(take_code_point(ahead));
        while (!ahead.empty()) {
            std::string_view next = ahead;
            if (divides(take_code_point(next)) != divider) break;
            ahead = next;
        }
        word = rest.substr(0, rest.size() - ahead.size());
        rest = ahead;
        std::string_view tail = word;
        take_code_point(tail);
        out += upper(word.substr(0, word.size() - tail.size()));
        out += lower(tail);
    }
    return source.made(run, std::move(out));
}

Datum trim_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Source source(run, input);
    const Datum stripped = find_text_method("strip")->call(run, source.datum, arguments);
    return source.datum.is_markup() ? stripped.as_markup() : stripped;
}

Datum replace_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "replace", {"old", "new", "count"}, 2);
    const Source source(run, input);
    int64_t count = -1;
    if (bound.has(2) && !bound[2].is(Kind::none)) count = bound.integer_or(2, -1);
    const Datum old = bound[0].is(Kind::text) ? bound[0] : run.heap.text(to_text(bound[0]));
    const Datum by = bound[1].is(Kind::text) ? bound[1] : run.heap.text(to_text(bound[1]));
    if (!run.escapes)
        return run.heap.text(replaced(run, source.text, old.text(), by.text(), count));
    return run.heap
        .text(replaced(run, to_markup(source.datum), to_markup(old), to_markup(by), count))
        .as_markup();
}

Datum indent_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "indent", {"width", "first", "blank"});
    if (input.is(Kind::undefined)) fail_undefined(input);
    if (!input.is(Kind::text)) fail("indent of a {}", type_name(input));
    const Source source(run, input);
    std::string indentation;
    if (bound.has(0) && bound[0].is(Kind::text)) {
        indentation = bound[0].text();
    } else {
        const auto width = static_cast<uint64_t>(std::max<int64_t>(bound.integer_or(0, 4), 0));
        run.check_size(width, 1);
        indentation.assign(width, ' ');
    }
    // jinja2 splits lines with splitlines().
    Arguments none;
    const Datum ended = run.heap.text(format_text("{}\n", source.text));
    const Datum lines = find_text_method("splitlines")->call(run, ended, none);
    std::string out;
    for (size_t i = 0; i < lines.items().size(); ++i) {
        const std::string_view line = lines.items()[i].text();
        if (i > 0) out += '\n';
        const bool wanted =
            i == 0 ? bound.truth_or(1, false) : !line.empty() || bound.truth_or(2, false);
        if (wanted) out += indentation;
        out += line;
        run.check_size(out.size(), 1);
    }
    return source.made(run, std::move(out));
}

Datum center_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "center", {"width"});
    const Source source(run, input);
    return source.made(run, aligned(run, source.text, bound.integer_or(0, 80), '^', " "));
}

Datum truncate_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "truncate", {"length", "killwords", "end", "leeway"});
    const int64_t length = bound.integer_or(0, 255);
    const std::string_view end = bound.text_or(2, "...");
    const int64_t leeway = bound.has(3) && !bound[3].is(Kind::none) ? bound.integer_or(3, 5) : 5;
    if (!input.is(Kind::text)) {
        if (length_of(input) - length > leeway) fail("truncate of a {}", type_name(input));
        return input;
    }
    const Source source(run, input);
    const auto end_size = static_cast<int64_t>(count_code_points(end));
    if (length < end_size) fail("truncate: a length of {} has no room for the end", length);
    if (leeway < 0) fail("truncate: the leeway is negative");
    if (static_cast<int64_t>(count_code_points(source.text)) - length <= leeway)
        return source.datum;
    std::string_view kept = source.text.substr(
        0, byte_of_code_point(source.text, static_cast<size_t>(length - end_size)));
    if (!bound.truth_or(1, false)) kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
    return source.made(run, concat(kept, end));
}

Datum wordcount_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "wordcount", {});
    const Source source(run, input);
    int64_t count = 0;
    bool inside = false;
    for (std::string_view rest = source.text; !rest.empty();) {
        const char32_t c = take_code_point(rest);
        const bool is_word = c == '_' || is_alphanumeric(c);
        count += is_word && !inside ? 1 : 0;
        inside = is_word;
    }
    return Datum(count);
}

// Splits a line into pieces of white space and of other characters.
std::vector<std::string_view> pieces_of(std::string_view line) {
    std::vector<std::string_view> pieces;
    while (!line.empty()) {
        std::string_view ahead = line;
        const bool space = is_space(take_code_point(ahead));
        while (!ahead.empty()) {
            std::string_view next = ahead;
            if (is_space(take_code_point(next)) != space) break;
            ahead = next;
        }
        pieces.push_back(line.substr(0, line.size() - ahead.size()));
        line = ahead;
    }
    return pieces;
}

// Wraps like Python's textwrap: as many pieces per row as fit, without trailing white space, and
// with leading white space only in the first row.
std::vector<std::string> rows_of(std::string_view line, size_t width, bool breaks) {
    std::vector<std::string_view> pieces = pieces_of(line);
    std::vector<std::string> rows;
    for (size_t at = 0; at < pieces.size();) {
        std::vector<std::string_view> row;
        size_t used = 0;
        if (!rows.empty() && strip(pieces[at]).empty()) ++at;
        while (at < pieces.size() && used + count_code_points(pieces[at]) <= width) {
            used += count_code_points(pieces[at]);
            row.push_back(pieces[at++]);
        }
        if (at < pieces.size() && count_code_points(pieces[at]) > width) {
            if (breaks) {
                const size_t cut =
                    byte_of_code_point(pieces[at], std::max<size_t>(width - used, 1));
                row.push_back(pieces[at].substr(0, cut));
                pieces[at].remove_prefix(cut);
            } else if (row.empty()) {
                row.push_back(pieces[at++]);
            }
        }
        if (!row.empty() && strip(row.back()).empty()) row.pop_back();
        std::string text;
        for (const std::string_view piece : row) text += piece;
        if (!row.empty()) rows.push_back(std::move(text));
    }
    return rows;
}

Datum wordwrap_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "wordwrap",
                      {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
    if (!input.is(Kind::text)) fail("wordwrap of a {}", type_name(input));
    const Source source(run, input);
    const int64_t width = bound.integer_or(0, 79);
    if (width <= 0) fail("wordwrap: a width of {}", width);
    const std::string_view between =
        bound.has(2) && !bound[2].is(Kind::none) ? bound.text_or(2, "\n") : "\n";
    Arguments none;
    const Datum lines = find_text_method("splitlines")->call(run, source.datum, none);
    std::string out;
    for (size_t i = 0; i < lines.items().size(); ++i) {
        if (i > 0) out += between;
        const std::string_view line = lines.items()[i].text();
        run.step(1 + line.size());
        const bool is_long = count_code_points(line) > static_cast<size_t>(width);
        if (is_long && bound.truth_or(3, true) && line.find('-') != std::string_view::npos)
            fail("wordwrap at hyphens is not supported: give it break_on_hyphens=false");
        const auto rows = rows_of(line, static_cast<size_t>(width), bound.truth_or(1, true));
        out += join(rows, between);
        run.check_size(out.size(), 1);
    }
    return source.made(run, std::move(out));
}

Datum format_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Source source(run, input);
    if (!arguments.named.empty() && !arguments.positional.empty())
        fail("format takes values with names or without, not both");
    if (arguments.named.empty())
        return percent_format(run, source.text, run.heap.tuple(arguments.positional));
    const auto named = run.heap.make<Dict>();
    for (const auto& [name, value] : arguments.named) named->set(name, value);
    return percent_format(run, source.text, datum(named));
}

constexpr std::array<FilterEntry, 12> all_text_filters{{
    {"upper", mapped<upper>},
    {"lower", mapped<lower>},
    {"capitalize", mapped<capitalize>},
    {"title", title_filter},
    {"trim", trim_filter},
    {"replace", replace_filter},
    {"indent", indent_filter},
    {"center", center_filter},
    {"truncate", truncate_filter},
    {"wordcount", wordcount_filter},
    {"wordwrap", wordwrap_filter},
    {"format", format_filter},
}};

}  // namespace

std::span<const FilterEntry> text_filters() { return all_text_filters; }

}  // namespace ringshard::text::jinja
