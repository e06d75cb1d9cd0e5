#include "axolotl_answers.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

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

// Types of single answers whose question is a column, beside that of the system's message.
struct Question {
    std::string_view type;
    const char* column;
};
constexpr std::array questions{Question{"argilla", "instruction"}, Question{"intel", "question"},
                               Question{"prompt_pairs", "prompt"}, Question{"ultra", "prompt"}};

// Types of pairs, as expressions of Jinja; %: a side's column.
struct PairType {
    std::string_view type;
    const char* question;
    const char* answer;
    bool has_system = true;
};
constexpr std::array pair_types{
    PairType{"default",
             "(prompt if prompt is defined else input if input is defined else question if "
             "question is defined else instruction)",
             "(% if % is defined else %_response)"},
    PairType{"icr", "input", "%"},
    PairType{"intel", "question", "%"},
    PairType{"prompt_pairs", "prompt", "%"},
    PairType{"ultra", "prompt", "%[1]['content']"},
    PairType{"argilla_chat", "chosen[0]['content']", "%[1]['content']", false}};

std::string quoted(const std::string& text) { return concat("'", text, "'"); }

std::string turn(const Marks& marks, const std::string& role, const std::string& content) {
    return format_text("'{}' ~ {} ~ '{}' ~ {} ~ '{}{}'", marks.before_role, role, marks.behind_role,
                       content, marks.end, marks.between_turns);
}

std::string system_and(const Marks& marks, const std::string& question) {
    return format_text("(({}) if system is defined and system else '') ~ {}",
                       turn(marks, quoted("system"), "system"),
                       turn(marks, quoted("user"), question));
}

std::string prompt_field(const Marks& marks, const std::string& turns) {
    return format_text(R"("prompt": {{{{ (({}) ~ '{}assistant{}') | tojson }}}})", turns,
                       marks.before_role, marks.behind_role);
}

std::string answer_field(const Marks& marks, const std::string& name, const std::string& answer) {
    return format_text(R"("{}": {{{{ ({} ~ '{}') | tojson }}}})", name, answer, marks.end);
}

std::string row(const Marks& marks, const std::string& turns, const std::string& answer) {
    return format_text(R"({{{}, {}, "label": {{{{ label | tojson }}}}}})",
                       prompt_field(marks, turns), answer_field(marks, "completion", answer));
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

std::string in_place_of_mark(std::string expression, const std::string& column) {
    for (size_t at = expression.find('%'); at != std::string::npos; at = expression.find('%', at))
        expression.replace(at, 1, column);
    return expression;
}

// Returns the family of a type such as "chatml.ultra", or nullptr, and the rest of its name.
std::pair<const Marks*, std::string> family_of(const std::string& type) {
    for (const Marks& marks : families)
        if (const std::string prefix = concat(marks.family, "."); type.starts_with(prefix))
            return {&marks, type.substr(prefix.size())};
    return {nullptr, {}};
}

}  // namespace

std::string template_of_answers(const std::string& type) {
    const auto& [marks, kind] = family_of(type);
    if (marks == nullptr) return {};
    if (kind == "argilla_chat") return of_conversation(*marks);
    const auto* const found = std::ranges::find(questions, kind, &Question::type);
    if (found == questions.end()) return {};
    return row(*marks, system_and(*marks, found->column), "completion");
}

std::string template_of_pairs(const std::string& type) {
    const auto& [marks, kind] = family_of(type);
    const auto* const found = std::ranges::find(pair_types, kind, &PairType::type);
    if (marks == nullptr || found == pair_types.end()) return {};
    const std::string turns = found->has_system ? system_and(*marks, found->question)
                                                : turn(*marks, quoted("user"), found->question);
    const auto side = [&](const std::string& column) {
        return answer_field(*marks, column, in_place_of_mark(found->answer, column));
    };
    return format_text("{{{}, {}, {}}}", prompt_field(*marks, turns), side("chosen"),
                       side("rejected"));
}

}  // namespace ringshard::config
