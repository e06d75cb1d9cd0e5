#include "chat_targets.hpp"

#include <algorithm>
#include <array>

#include "ringshard/data/token_store.hpp"
#include "row_columns.hpp"

namespace ringshard::data {

using text::ByteRange;
using text::Value;

namespace {

// Returns where the assistant's answers are: from the content of a message, or a thought that the
// template writes before it, to the end of the turn.
Expected<std::vector<ByteRange>> find_answers(const RenderedChat& row, const TextTools& tools) {
    static constexpr std::array<std::string_view, 5> thoughts{"<think>", "</think>", "<seed:think>",
                                                              "</mm:think>", "<|channel>thought"};
    std::vector<bool> is_answer;
    for (const Value& message : *row.chat.messages.list()) {
        const Value* role = message.find("role");
        is_answer.push_back(role != nullptr && role->string() != nullptr &&
                            *role->string() == "assistant");
    }
    const auto contents = tools.find_messages(row.chat, row.rendered.text, is_answer);
    if (!contents) return contents.failure();
    std::vector<ByteRange> answers;
    for (ByteRange turn : row.rendered.assistant) {
        const auto content = std::ranges::find_if(contents.value(), [&](ByteRange one) {
            return one.begin < one.end && turn.begin <= one.begin && one.begin < turn.end;
        });
        if (content != contents.value().end()) {
            const std::string_view head =
                std::string_view(row.rendered.text).substr(turn.begin, content->begin - turn.begin);
            size_t begin = head.size();
            for (const std::string_view thought : thoughts)
                begin = std::min(begin, head.find(thought));
            turn.begin += begin;
        }
        answers.push_back(turn);
    }
    return answers;
}

// Returns where the answer ends: before a special token at its end, and white space behind it.
size_t end_of_answer(const RenderedChat& row, ByteRange answer, std::span<const int32_t> tokens,
                     const text::Tokenizer& tokenizer) {
    const auto behind = std::ranges::lower_bound(row.tokens, answer.end, {}, &text::Span::first);
    auto last = static_cast<size_t>(behind - row.tokens.begin());
    const auto is_white = [&](text::Span span) {
        return trim(std::string_view(row.rendered.text).substr(span.first, span.last - span.first))
            .empty();
    };
    while (last > 0 && is_white(row.tokens[last - 1])) --last;
    const auto token = last > 0 ? tokenizer.token_of(tokens[last - 1]) : std::nullopt;
    return token && tokenizer.is_special(*token) ? row.tokens[last - 1].first : answer.end;
}

// Weighs parts of the answers, without the tokens that end a turn.
std::optional<Failure> scale_answers(const RenderedChat& row, const LossScale& scale,
                                     const TextTools& tools, EncodedRow& into) {
    auto answers = find_answers(row, tools);
    if (!answers) return answers.failure();
    for (ByteRange& answer : answers.value())
        answer.end = end_of_answer(row, answer, into.tokens, tools.tokenizer());
    return apply_loss_scale(scale, row.rendered.text, answers.value(), row.tokens, into);
}

}  // namespace

Expected<bool> choose_chat_targets(const RenderedChat& row, std::span<const MessageMarks> marks,
                                   const FormatSettings& settings, const LossScale* scale,
                                   const TextTools& tools, EncodedRow& into) {
    const auto has_reasoning = apply_message_loss(row, marks, settings, tools, into);
    if (!has_reasoning) return has_reasoning.failure();
    if (!row.chat.unlearned.empty())
        if (auto failure = mask_unlearned(row, tools, into.labels)) return *failure;
    if (scale != nullptr)
        if (auto failure = scale_answers(row, *scale, tools, into)) return *failure;
    if (std::ranges::any_of(into.labels, [](const int32_t label) { return label != no_label; }))
        return has_reasoning;
    return Failure{ExitCode::bad_data,
                   needs_message_spans(settings, marks)
                       ? "no token of this conversation is learned: train, training, loss_mask and "
                         "weight of its messages and the settings leave out all of them"
                       : "assistant_only_loss = true, and no token of this conversation is the "
                         "assistant's"};
}

}  // namespace ringshard::data
