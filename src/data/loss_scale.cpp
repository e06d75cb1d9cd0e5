#include "loss_scale.hpp"

#include <algorithm>
#include <array>

#include "ringshard/base/regex.hpp"
#include "ringshard/data/token_store.hpp"

namespace ringshard::data {

namespace {

// A text that begins a part, with the weights of the text and of what follows up to the next one.
struct Delimiter {
    std::string_view text;
    float own;
    float behind;
};

struct KnownRule {
    std::string_view name;
    // Regular expressions with the weight of their matches; or delimiters.
    std::vector<std::pair<std::string_view, float>> patterns;
    std::vector<Delimiter> delimiters;
};

const std::vector<KnownRule>& known_rules() {
    static const std::vector<KnownRule> rules{
        {"ignore_empty_think",
         {{R"(^<think>\s*</think>\s*)", 0},
          {R"(^<seed:think><seed:cot_budget_reflect>The current thinking budget is 0, so I will )"
           R"(directly start answering the question\.</seed:cot_budget_reflect>\n</seed:think>\s*)",
           0},
          {R"(^</think>\s*)", 0},
          {R"(^<\|channel>thought\n<channel\|>)", 0},
          {R"(^</mm:think>\s*)", 0}},
         {}},
        {"ignore_think_prefix", {{R"(^<think>\n?)", 0}}, {}},
        {"hermes", {{R"(<tool_call>.+?</tool_call>)", 2}}, {}},
        {"react",
         {},
         {{"Action:", 2, 2},
          {"Action Input:", 2, 2},
          {"Thought:", 1, 1},
          {"Final Answer:", 1, 1},
          {"Observation:", 2, 0}}},
        {"qwen",
         {},
         {{"✿FUNCTION✿:", 2, 2}, {"✿ARGS✿:", 2, 2}, {"✿RETURN✿:", 1, 1}, {"✿RESULT✿:", 2, 0}}},
        {"alpha_umi",
         {},
         {{"Action:", 2, 2},
          {"Action Input:", 2, 2},
          {"Thought:", 1, 1},
          {"Final Answer:", 1, 1},
          {"Observation:", 2, 0},
          {"Next:", 2, 2}}}};
    return rules;
}

}  // namespace

struct LossScale::Rule {
    std::vector<std::pair<CompiledRegex, float>> patterns;
    std::vector<Delimiter> delimiters;

    // Appends the parts of a text that begins at `offset` of the answer.
    std::optional<Failure> split(std::string_view text, size_t offset, float weight,
                                 std::vector<Part>& into) const {
        const auto put = [&](size_t begin, size_t end, float own) {
            if (begin < end) into.push_back({offset + begin, offset + end, weight * own});
        };
        if (!delimiters.empty()) {
            split_at_delimiters(text, put);
            return std::nullopt;
        }
        size_t done = 0;
        while (done < text.size()) {
            auto found = next_match(text, done);
            if (!found) return found.failure();
            const auto& [match, own] = found.value();
            put(done, match.begin, 1);
            put(match.begin, match.end, own);
            if (match.begin == match.end) break;
            done = match.end;
        }
        return std::nullopt;
    }

private:
    void split_at_delimiters(std::string_view text, const auto& put) const {
        size_t done = 0;
        float behind = 1;
        for (size_t at = 0; at < text.size();) {
            const auto found = std::ranges::find_if(delimiters, [&](const Delimiter& delimiter) {
                return text.substr(at).starts_with(delimiter.text);
            });
            if (found == delimiters.end()) {
                ++at;
                continue;
            }
            put(done, at, behind);
            put(at, at + found->text.size(), found->own);
            behind = found->behind;
            at = done = at + found->text.size();
        }
        put(done, text.size(), behind);
    }

    // Returns the first match of any pattern from `from` on, with its weight; an empty one at the
    // end of the text: none.
    Expected<std::pair<CompiledRegex::Match, float>> next_match(std::string_view text,
                                                                size_t from) const {
        std::pair<CompiledRegex::Match, float> first{{text.size(), text.size()}, 1.0F};
        for (const auto& [pattern, weight] : patterns) {
            CompiledRegex::Search search(pattern, text);
            const auto match = search.find(from);
            if (!match) return match.failure();
            if (match.value() && match.value()->begin < first.first.begin)
                first = {*match.value(), weight};
        }
        return first;
    }
};

Expected<LossScale> LossScale::make(const std::vector<std::string>& names) {
    LossScale scale;
    for (const std::string& name : names) {
        const auto known = std::ranges::find(known_rules(), name, &KnownRule::name);
        if (known == known_rules().end())
            return Failure{ExitCode::settings, format_text("loss_scale has no rule {}", name)};
        Rule rule{{}, known->delimiters};
        for (const auto& [pattern, weight] : known->patterns) {
            auto compiled =
                CompiledRegex::compile("(?s)" + std::string(pattern), {.has_machine_code = true});
            if (!compiled) return compiled.failure();
            rule.patterns.emplace_back(std::move(compiled).value(), weight);
        }
        scale.rules_.push_back(std::make_shared<const Rule>(std::move(rule)));
    }
    return scale;
}

Expected<std::vector<LossScale::Part>> LossScale::parts(std::string_view answer) const {
    std::vector<Part> parts{{0, answer.size(), 1}};
    for (const auto& rule : rules_) {
        std::vector<Part> finer;
        for (const Part& part : parts)
            if (auto failure = rule->split(answer.substr(part.begin, part.end - part.begin),
                                           part.begin, part.weight, finer))
                return *failure;
        parts = std::move(finer);
    }
    return parts;
}

std::optional<Failure> apply_loss_scale(const LossScale& scale, std::string_view text,
                                        std::span<const text::ByteRange> answers,
                                        std::span<const text::Span> tokens, EncodedRow& into) {
    for (const text::ByteRange& answer : answers) {
        const auto parts = scale.parts(text.substr(answer.begin, answer.end - answer.begin));
        if (!parts) return Failure{ExitCode::bad_data, parts.failure().message};
        for (const LossScale::Part& part : parts.value()) {
            if (part.weight == 1) continue;
            const size_t begin = answer.begin + part.begin;
            const size_t end = answer.begin + part.end;
            // A token belongs to the part in which it begins.
            const auto first = std::ranges::lower_bound(tokens, begin, {}, &text::Span::first);
            for (auto i = static_cast<size_t>(first - tokens.begin());
                 i < tokens.size() && tokens[i].first < end; ++i) {
                if (into.labels[i] == no_label) continue;
                if (part.weight == 0) {
                    into.labels[i] = no_label;
                    continue;
                }
                if (into.weights.empty()) into.weights.assign(into.tokens.size(), 1.0F);
                into.weights[i] *= part.weight;
            }
        }
    }
    return std::nullopt;
}

}  // namespace ringshard::data
