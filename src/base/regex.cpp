#include "ringshard/base/regex.hpp"

#include "ringshard/base/text.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace ringshard {

struct CompiledRegex::Code {
    pcre2_code* code = nullptr;
    Options options;
    ~Code() { pcre2_code_free(code); }
};

namespace {

std::string message_of(int error) {
    PCRE2_UCHAR text[256] = {};
    pcre2_get_error_message(error, text, sizeof text);
    return reinterpret_cast<const char*>(text);
}

PCRE2_SPTR characters(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

Expected<CompiledRegex> CompiledRegex::compile(const std::string& pattern, const Options& options) {
    auto code = std::make_shared<Code>();
    code->options = options;
    int error = 0;
    PCRE2_SIZE place = 0;
    pcre2_compile_context* const context = pcre2_compile_context_create(nullptr);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    code->code =
        pcre2_compile(characters(pattern), pattern.size(),
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &place, context);
    pcre2_compile_context_free(context);
    if (code->code == nullptr)
        return Failure{ExitCode::bad_data,
                       format_text("{} (at its character {})", message_of(error), place + 1)};
    // Without machine code, matching still works.
    if (options.has_machine_code) pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);
    CompiledRegex regex;
    regex.code_ = std::move(code);
    return regex;
}

struct CompiledRegex::Search::State {
    std::shared_ptr<const Code> code;
    std::string_view text;
    pcre2_match_data* data = nullptr;
    pcre2_match_context* context = nullptr;
    pcre2_jit_stack* stack = nullptr;

    State(std::shared_ptr<const Code> of, std::string_view searched)
        : code(std::move(of)),
          text(searched),
          data(pcre2_match_data_create_from_pattern(code->code, nullptr)),
          context(pcre2_match_context_create(nullptr)) {
        constexpr uint32_t most_kib = 64 * 1024;
        pcre2_set_match_limit(context, code->options.steps);
        pcre2_set_heap_limit(context, most_kib);
        if (!code->options.has_machine_code) return;
        stack = pcre2_jit_stack_create(32 * 1024, 16 * 1024 * 1024, nullptr);
        pcre2_jit_stack_assign(context, nullptr, stack);
    }
    ~State() {
        pcre2_match_data_free(data);
        pcre2_match_context_free(context);
        pcre2_jit_stack_free(stack);
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    Expected<std::optional<Match>> match(size_t from, uint32_t options) {
        const int found =
            pcre2_match(code->code, characters(text), text.size(), from, options, data, context);
        if (found == PCRE2_ERROR_NOMATCH) return std::optional<Match>();
        if (found < 0) return Failure{ExitCode::bad_data, message_of(found)};
        const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(data);
        return std::optional(Match{ends[0], ends[1]});
    }
};

CompiledRegex::Search::Search(const CompiledRegex& regex, std::string_view text)
    : state_(std::make_unique<State>(regex.code_, text)) {}
CompiledRegex::Search::~Search() = default;

Expected<std::optional<CompiledRegex::Match>> CompiledRegex::Search::find(size_t from) {
    return state_->match(from, state_->code->options.trusts_text ? PCRE2_NO_UTF_CHECK : 0);
}

Expected<bool> CompiledRegex::Search::matches_whole() {
    const auto found = state_->match(0, PCRE2_ANCHORED | PCRE2_ENDANCHORED);
    if (!found) return found.failure();
    return found.value().has_value();
}

}  // namespace ringshard
