#include "scored_encoding.hpp"

#include <algorithm>
#include <utility>

#include "implicit_prompt.hpp"
#include "row_columns.hpp"
#include "scored_row.hpp"

namespace ringshard::data {

using text::SpecialTokens;
using text::Value;

std::optional<Failure> ScoredEncoding::label_with_column() {
    if (into_.tokens.empty()) return bad_row("has no token");
    if (parts_.settings.content.has_numbers) {
        const auto number = read_number(row_, "label");
        if (!number) return number.failure();
        label_from(0, 0);
        into_.weights.assign(into_.tokens.size(), number.value());
        return std::nullopt;
    }
    const auto label = read_label(row_, parts_.settings);
    if (!label) return label.failure();
    label_from(0, label.value());
    return std::nullopt;
}

void ScoredEncoding::label_from(size_t first, int32_t label) {
    if (first == 0) into_.labels.clear();
    label_document(label, parts_.tools->padding_token().value_or(-1), first, into_);
}

std::optional<Failure> ScoredEncoding::encode_labelled_text() {
    std::string text;
    if (auto failure = read_text(row_, parts_.settings.text_field, text)) return failure;
    if (auto failure = tokenize(text, SpecialTokens::add, into_.tokens)) return failure;
    return label_with_column();
}

std::optional<Failure> ScoredEncoding::encode_texts() {
    std::vector<std::string> texts(2);
    if (auto failure = read_text(row_, "anchor", texts[0])) return failure;
    if (auto failure = read_text(row_, "positive", texts[1])) return failure;
    const Value* const negative = row_.find("negative");
    if (negative != nullptr && negative->list() != nullptr) {
        for (const Value& text : *negative->list()) {
            if (text.string() == nullptr)
                return bad_row(format_text("negative has {}, where a text is needed", text.kind()));
            texts.push_back(*text.string());
        }
    } else if (negative != nullptr && !negative->is_null()) {
        if (auto failure = read_text(row_, "negative", texts.emplace_back())) return failure;
    }
    std::vector<int32_t> all;
    for (const std::string& text : texts) {
        if (auto failure = tokenize(text, SpecialTokens::add, into_.tokens)) return failure;
        if (into_.tokens.empty()) return bad_row("has a text without tokens");
        into_.document_lengths.push_back(static_cast<int32_t>(into_.tokens.size()));
        all.insert(all.end(), into_.tokens.begin(), into_.tokens.end());
    }
    into_.tokens = std::move(all);
    into_.labels.assign(into_.tokens.size(), 0);
    return std::nullopt;
}

std::optional<Failure> ScoredEncoding::encode_labelled_chat() {
    auto messages = read_text_messages("messages");
    if (!messages) return messages.failure();
    add_system_message(parts_.settings.system_prompt, messages.value());
    if (auto failure = encode_messages(messages.value())) return failure;
    return label_with_column();
}

template <class EncodeChosen, class EncodeRejected>
std::optional<Failure> ScoredEncoding::encode_sides(EncodeChosen encode_chosen,
                                                    EncodeRejected encode_rejected) {
    if (auto failure = encode_chosen()) return failure;
    const std::vector<int32_t> chosen = into_.tokens;
    if (auto failure = encode_rejected()) return failure;
    if (chosen == into_.tokens) return bad_row("chosen and rejected are the same answer");
    const std::vector<int32_t> rejected = std::exchange(into_.tokens, {});
    into_.labels.clear();
    for (const std::vector<int32_t>* side : {&chosen, &rejected}) {
        const size_t first = into_.tokens.size();
        into_.tokens.insert(into_.tokens.end(), side->begin(), side->end());
        into_.document_lengths.push_back(static_cast<int32_t>(side->size()));
        label_from(first, 0);
    }
    if (row_.find("margin") == nullptr) return std::nullopt;
    const auto margin = read_number(row_, "margin");
    if (!margin) return margin.failure();
    into_.weights.assign(into_.tokens.size(), 1);
    std::fill_n(into_.weights.begin(), chosen.size(), 1 + margin.value());
    return std::nullopt;
}

std::optional<Failure> ScoredEncoding::encode_pair() {
    std::string prompt;
    TextPair pair;
    if (format_.has_prompt)
        if (auto failure = read_text(row_, "prompt", prompt)) return failure;
    if (auto failure = read_text(row_, "chosen", pair.chosen)) return failure;
    if (auto failure = read_text(row_, "rejected", pair.rejected)) return failure;
    const auto encode = [&](std::string answer) {
        end_with_eos(answer);
        return tokenize(prompt + answer, SpecialTokens::add, into_.tokens);
    };
    return encode_sides([&] { return encode(pair.chosen); }, [&] { return encode(pair.rejected); });
}

std::optional<Failure> ScoredEncoding::encode_chat_pair() {
    Value prompt{Value::List()};
    if (format_.has_prompt) {
        auto read = read_text_messages("prompt");
        if (!read) return read.failure();
        prompt = std::move(read).value();
    }
    auto chosen = read_text_messages("chosen");
    if (!chosen) return chosen.failure();
    auto rejected = read_text_messages("rejected");
    if (!rejected) return rejected.failure();
    const auto encode = [&](const Value& answer) {
        Value all = prompt;
        all.list()->insert(all.list()->end(), answer.list()->begin(), answer.list()->end());
        add_system_message(parts_.settings.system_prompt, all);
        return encode_messages(all);
    };
    return encode_sides([&] { return encode(chosen.value()); },
                        [&] { return encode(rejected.value()); });
}

}  // namespace ringshard::data
