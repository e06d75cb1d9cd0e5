#include "axolotl_answers.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "ringshard/base/text.hpp"

namespace ringshard::config {

namespace {

// How texts of a family begin and end a turn, as Jinja has them in quotes.
struct Marks {
    std::string_view family;
    const char* before_role;
    const char* behind_role;
    const char* end;
    const char* between_turns;
};
constexpr std::array families{
    Marks{"chatml", "<|im_start|>", R"(\n)", "<|im_end|>", R"(\n)"},
    Marks{"llama3", "<|start_header_id|>", R"(<|end_header_id|>\n\n)", "<|eot_id|>", ""}};

// Types whose question is a column, beside that of the system's message.
struct Question {
    std::string_view type;
    const char* column;
};
constexpr std::array questions{Question{"argilla", "instruction"}, Question{"intel", "question"},
                               Question{"prompt_pairs", "prompt"}, Question{"ultra", "prompt"}};

std::string quoted(const std::string& text) { return concat("'", text, "'"); }

std::string turn(const Marks& marks, const std::string& role, const std::string& content) {
    return format_text("'{}' ~ {} ~ '{}' ~ {} ~ '{}{}'", marks.before_role, role, marks.behind_role,
                       content, marks.end, marks.between_turns);
}

std::string row(const Marks& marks, const std::string& turns, const std::string& answer) {
    return format_text(
        R"({{"prompt": {{{{ (({}) ~ '{}assistant{}') | tojson }}}}, "completion": {{{{ ({} ~ '{}') | )"
        R"(tojson }}}}, "label": {{{{ label | tojson }}}}}})",
        turns, marks.before_role, marks.behind_role, answer, marks.end);
}

// A conversation in the column completion: axolotl takes two turns of one in ChatML.
std::string of_conversation(const Marks& marks) {
    if (marks.family == "chatml")
        return row(marks, turn(marks, quoted("user"), "completion[0]['content']"),
                   "completion[1]['content']");
    return format_text(
               "{{% set said = namespace(text='') %}}{{% for turn in completion[:-1] %}}{{% set "
               "said.text = said.text ~ {} %}}{{% endfor %}}",
               turn(marks, "turn['role']", "turn['content']")) +
           row(marks, "said.text", "completion[-1]['content']");
}

}  // namespace

std::string template_of_answers(const std::string& type) {
    for (const Marks& marks : families) {
        const std::string prefix = concat(marks.family, ".");
        if (!type.starts_with(prefix)) continue;
        const std::string kind = type.substr(prefix.size());
        if (kind == "argilla_chat") return of_conversation(marks);
        const auto* const found = std::ranges::find(questions, kind, &Question::type);
        if (found == questions.end()) return {};
        return row(marks,
                   format_text("(({}) if system is defined and system else '') ~ {}",
                               turn(marks, quoted("system"), "system"),
                               turn(marks, quoted("user"), found->column)),
                   "completion");
    }
    return {};
}

}  // namespace ringshard::config
