#include "regex.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace ringshard::text {

struct Regex::Code {
    pcre2_code* code = nullptr;
    std::string pattern;
    ~Code() { pcre2_code_free(code); }
};

namespace {

struct MatchData {
    explicit MatchData(const pcre2_code* code)
        : data(pcre2_match_data_create_from_pattern(code, nullptr)),
          context(pcre2_match_context_create(nullptr)),
          stack(pcre2_jit_stack_create(32 * 1024, 16 * 1024 * 1024, nullptr)) {
        pcre2_jit_stack_assign(context, nullptr, stack);
    }
    ~MatchData() {
        pcre2_match_data_free(data);
        pcre2_match_context_free(context);
        pcre2_jit_stack_free(stack);
    }
    MatchData(const MatchData&) = delete;
    MatchData& operator=(const MatchData&) = delete;
    pcre2_match_data* data;
    pcre2_match_context* context;
    pcre2_jit_stack* stack;
};

std::string message_of(int error) {
    PCRE2_UCHAR text[256] = {};
    pcre2_get_error_message(error, text, sizeof text);
    return reinterpret_cast<const char*>(text);
}

}  // namespace

Expected<Regex> Regex::compile(const std::string& pattern) {
    const auto translated = to_pcre2(pattern);
    if (!translated) return translated.failure();
    auto code = std::make_shared<Code>();
    code->pattern = pattern;
    int error = 0;
    PCRE2_SIZE place = 0;
    pcre2_compile_context* const context = pcre2_compile_context_create(nullptr);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    const std::string& text = translated.value();
    code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                               PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C,
                               &error, &place, context);
    pcre2_compile_context_free(context);
    if (code->code == nullptr)
        return Failure{ExitCode::bad_data,
                       format_text("the regular expression {} cannot be understood: {}", pattern,
                                   message_of(error))};
    pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);  // without JIT, matching still works
    Regex regex;
    regex.code_ = std::move(code);
    return regex;
}

void Regex::find(std::string_view text, std::vector<Cut>& matches) const {
    const MatchData match(code_->code);
    const auto* const subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    size_t from = 0;
    size_t last_end = ~size_t{0};
    while (from <= text.size()) {
        const int found = pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                                      match.data, match.context);
        if (found == PCRE2_ERROR_NOMATCH) return;
        if (found < 0)
            throw Error(
                ExitCode::bad_data,
                format_text("the regular expression {} of tokenizer.json on a text of {} bytes: {}",
                            code_->pattern, text.size(), message_of(found)));
        const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(match.data);
        const size_t first = ends[0], last = ends[1];
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
