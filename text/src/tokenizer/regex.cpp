#include "regex.hpp"

#include "ringshard/base/error.hpp"

namespace ringshard::text {

Expected<Regex> Regex::compile(const std::string& pattern) {
    const auto translated = to_pcre2(pattern);
    if (!translated) return translated.failure();
    auto compiled =
        CompiledRegex::compile(translated.value(), {.has_machine_code = true, .trusts_text = true});
    if (!compiled)
        return Failure{ExitCode::bad_data,
                       format_text("the regular expression {} cannot be understood: {}", pattern,
                                   compiled.failure().message)};
    return Regex(pattern, std::move(compiled).value());
}

void Regex::find(std::string_view text, std::vector<Cut>& matches) const {
    CompiledRegex::Search search(compiled_, text);
    size_t from = 0;
    size_t last_end = ~size_t{0};
    while (from <= text.size()) {
        const auto found = search.find(from);
        if (!found)
            throw Error(
                ExitCode::bad_data,
                format_text("the regular expression {} of tokenizer.json on a text of {} bytes: {}",
                            pattern_, text.size(), found.failure().message));
        if (!found.value()) return;
        const auto [first, last] = *found.value();
        if (first == last && last_end == last) {
            // Skip an empty match directly after another match.
            from += from < text.size() ? code_point_length(text[from]) : 1;
            continue;
        }
        from = last_end = last;
        matches.push_back({static_cast<uint32_t>(first), static_cast<uint32_t>(last)});
    }
}

}  // namespace ringshard::text
