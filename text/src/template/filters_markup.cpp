#include "filters.hpp"
#include "printing.hpp"
#include "unicode/python_characters.hpp"

// Filters for HTML and URLs.
namespace ringshard::text::jinja {

namespace {

Datum escape_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "escape", {});
    if (input.is(Kind::text) && input.is_markup()) return input;
    return run.heap.text(to_markup(input)).as_markup();
}

Datum forceescape_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "forceescape", {});
    return run.heap.text(escaped(to_text(input))).as_markup();
}

Datum safe_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "safe", {});
    return (input.is(Kind::text) ? input : run.heap.text(to_text(input))).as_markup();
}

Datum string_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "string", {});
    return input.is(Kind::text) ? input : run.heap.text(to_text(input));
}

void append_unescaped(std::string& out, std::string_view text) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 7> entities{
        {{"&amp;", "&"},
         {"&lt;", "<"},
         {"&gt;", ">"},
         {"&#39;", "'"},
         {"&#34;", "\""},
         {"&quot;", "\""},
         {"&apos;", "'"}}};
    while (!text.empty()) {
        bool found = false;
        for (const auto& [entity, meaning] : entities) {
            if (!text.starts_with(entity)) continue;
            out += meaning;
            text.remove_prefix(entity.size());
            found = true;
            break;
        }
        if (found) continue;
        out += text.front();
        text.remove_prefix(1);
    }
}

Datum striptags_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "striptags", {});
    std::string text = to_text(input);
    run.step(1 + text.size() / 16);
    for (size_t begin = text.find("<!--"); begin != std::string::npos;
         begin = text.find("<!--", begin)) {
        const size_t end = text.find("-->", begin);
        if (end == std::string::npos) break;
        text.erase(begin, end + 3 - begin);
    }
    std::string plain;
    for (size_t at = 0; at < text.size();) {
        const size_t end = text[at] == '<' ? text.find('>', at) : std::string::npos;
        if (end == std::string::npos) {
            plain += text[at++];
        } else {
            at = end + 1;
        }
    }
    std::string joined;
    std::string_view rest = strip(plain);
    bool space = false;
    while (!rest.empty()) {
        const char32_t c = take_code_point(rest);
        if (is_space(c)) {
            space = true;
            continue;
        }
        if (space) joined += ' ';
        space = false;
        append_code_point(joined, c);
    }
    std::string out;
    append_unescaped(out, joined);
    return run.heap.text(std::move(out));
}

std::string quoted(std::string_view text, std::string_view safe) {
    static constexpr char digits[] = "0123456789ABCDEF";
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const bool plain =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (plain || std::string_view("_.-~").find(c) != std::string_view::npos ||
            safe.find(c) != std::string_view::npos) {
            out += c;
        } else {
            out += '%';
            out += digits[byte >> 4U];
            out += digits[byte & 15U];
        }
    }
    return out;
}

std::string quoted_plus(std::string_view text) {
    std::string out = quoted(text, " ");
    for (char& c : out)
        if (c == ' ') c = '+';
    return out;
}

Datum urlencode_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "urlencode", {});
    const bool is_pairs = input.is(Kind::dict) || input.is_sequence() || input.is(Kind::iterator) ||
                          input.is(Kind::view) || input.is(Kind::range) ||
                          input.is(Kind::undefined);
    if (!is_pairs) return run.heap.text(quoted(to_text(input), "/"));
    std::string out;
    std::vector<Member> pairs;
    if (input.is(Kind::dict)) {
        pairs = input.as<Dict>().members;
    } else {
        for (const Datum& pair : all_of(run, input)) {
            const std::vector<Datum> both = all_of(run, pair);
            if (both.size() != 2) fail("urlencode needs pairs");
            pairs.emplace_back(both[0], both[1]);
        }
    }
    for (const auto& [name, value] : pairs) {
        if (!out.empty()) out += '&';
        out += quoted_plus(to_text(name)) + "=" + quoted_plus(to_text(value));
    }
    return run.heap.text(std::move(out));
}

constexpr std::array<FilterEntry, 7> all_markup_filters{{
    {"escape", escape_filter},
    {"e", escape_filter},
    {"forceescape", forceescape_filter},
    {"safe", safe_filter},
    {"string", string_filter},
    {"striptags", striptags_filter},
    {"urlencode", urlencode_filter},
}};

}  // namespace

std::span<const FilterEntry> markup_filters() { return all_markup_filters; }

}  // namespace ringshard::text::jinja
