#include "unpaired.hpp"

#include "implicit_prompt.hpp"
#include "row_columns.hpp"

namespace ringshard::data {

using text::Value;

bool is_pair_of_answers(const Value& row) {
    return row.find("chosen") != nullptr && row.find("rejected") != nullptr;
}

namespace {

struct Sides {
    Value prompt;
    Value chosen;
    Value rejected;
};

Expected<Sides> sides_of(const Value& row) {
    Sides sides{{}, *row.find("chosen"), *row.find("rejected")};
    const bool are_texts = sides.chosen.string() != nullptr && sides.rejected.string() != nullptr;
    const bool are_lists = sides.chosen.list() != nullptr && sides.rejected.list() != nullptr;
    if (!are_texts && !are_lists)
        return bad_row(
            format_text("chosen is {} and rejected is {}; both have to be text, or both lists of "
                        "messages",
                        sides.chosen.kind(), sides.rejected.kind()));
    if (sides.chosen == sides.rejected) return bad_row("chosen and rejected are the same answer");
    if (const Value* const prompt = row.find("prompt"); prompt != nullptr) {
        sides.prompt = *prompt;
    } else if (are_lists) {
        sides.prompt = take_prompt_out(sides.chosen, sides.rejected);
    } else {
        TextPair pair{{}, *sides.chosen.string(), *sides.rejected.string()};
        take_prompt_out(pair);
        sides = {Value(pair.prompt), Value(pair.chosen), Value(pair.rejected)};
    }
    return sides;
}

}  // namespace

Expected<std::array<Value, 2>> take_apart(const Value& row) {
    if (!is_pair_of_answers(row))
        return bad_row("has no columns chosen and rejected, as the first row has");
    auto sides = sides_of(row);
    if (!sides) return sides.failure();
    Value::Object others;
    for (const auto& [name, value] : *row.object())
        if (name != "chosen" && name != "rejected") others.emplace_back(name, value);
    std::array<Value, 2> answers{Value(others), Value(std::move(others))};
    for (Value& answer : answers) answer.set("prompt", sides.value().prompt);
    answers[0].set("completion", std::move(sides.value().chosen));
    answers[0].set("label", Value(true));
    answers[1].set("completion", std::move(sides.value().rejected));
    answers[1].set("label", Value(false));
    return answers;
}

}  // namespace ringshard::data
