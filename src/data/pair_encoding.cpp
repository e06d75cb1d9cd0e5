#include "pair_encoding.hpp"

#include <algorithm>

#include "implicit_prompt.hpp"
#include "ringshard/data/token_store.hpp"
#include "row_columns.hpp"

namespace ringshard::data {

using text::Value;

namespace {

size_t first_learned(const EncodedRow& row) {
    return static_cast<size_t>(
        std::ranges::find_if(row.labels, [](int32_t label) { return label != no_label; }) -
        row.labels.begin());
}

}  // namespace

template <class EncodeChosen, class EncodeRejected>
std::optional<Failure> PairEncoding::encode_sides(EncodeChosen encode_chosen,
                                                  EncodeRejected encode_rejected) {
    if (auto failure = encode_chosen()) return failure;
    EncodedRow chosen;
    std::swap(chosen.tokens, into_.tokens);
    std::swap(chosen.labels, into_.labels);
    if (auto failure = encode_rejected()) return failure;
    if (chosen.tokens == into_.tokens) return bad_row("chosen and rejected are the same answer");
    const size_t first = std::min(first_learned(chosen), first_learned(into_));
    for (EncodedRow* side : {&chosen, &into_}) {
        if (first_learned(*side) == side->tokens.size())
            return bad_row(format_text("{} has no token of an answer",
                                       side == &chosen ? "chosen" : "rejected"));
        std::copy(side->tokens.begin() + static_cast<std::ptrdiff_t>(first), side->tokens.end(),
                  side->labels.begin() + static_cast<std::ptrdiff_t>(first));
        into_.document_lengths.push_back(static_cast<int32_t>(side->tokens.size()));
    }
    if (parts_.settings.content.learns_prompts) {
        std::copy_n(chosen.tokens.begin(), first, chosen.labels.begin());
        into_.weights.assign(first, 0);
        into_.weights.resize(chosen.tokens.size() + into_.tokens.size(), 1);
    }
    into_.tokens.insert(into_.tokens.begin(), chosen.tokens.begin(), chosen.tokens.end());
    into_.labels.insert(into_.labels.begin(), chosen.labels.begin(), chosen.labels.end());
    return std::nullopt;
}

std::optional<Failure> PairEncoding::encode_pair() {
    TextPair pair;
    if (auto failure = read_text(row_, "chosen", pair.chosen)) return failure;
    if (auto failure = read_text(row_, "rejected", pair.rejected)) return failure;
    if (!format_.has_prompt)
        take_prompt_out(pair);
    else if (auto failure = read_text(row_, "prompt", pair.prompt))
        return failure;
    return encode_sides([&] { return encode_prompt_completion(pair.prompt, pair.chosen); },
                        [&] { return encode_prompt_completion(pair.prompt, pair.rejected); });
}

std::optional<Failure> PairEncoding::encode_chat_pair() {
    auto chosen = read_text_messages("chosen");
    if (!chosen) return chosen.failure();
    auto rejected = read_text_messages("rejected");
    if (!rejected) return rejected.failure();
    auto prompt = format_.has_prompt ? read_text_messages("prompt")
                                     : take_prompt_out(chosen.value(), rejected.value());
    if (!prompt) return prompt.failure();
    add_system_message(parts_.settings.system_prompt, prompt.value());
    return encode_sides(
        [&] { return encode_chat_prompt_completion(prompt.value(), chosen.value()); },
        [&] { return encode_chat_prompt_completion(prompt.value(), rejected.value()); });
}

}  // namespace ringshard::data
