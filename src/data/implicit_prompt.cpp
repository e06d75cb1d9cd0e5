#include "implicit_prompt.hpp"

#include <algorithm>

namespace ringshard::data {

using text::Value;

namespace {

bool is_inside_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// An answer that the other one begins with gives its last item to neither's prompt.
size_t length_of_prompt(size_t common, size_t chosen, size_t rejected) {
    const size_t shorter = std::min(chosen, rejected);
    return common == shorter && shorter > 0 ? shorter - 1 : common;
}

}  // namespace

void take_prompt_out(TextPair& pair) {
    const auto differ = std::ranges::mismatch(pair.chosen, pair.rejected);
    const auto common = static_cast<size_t>(differ.in1 - pair.chosen.begin());
    size_t length = length_of_prompt(common, pair.chosen.size(), pair.rejected.size());
    const bool differ_there = length == common;
    while (length > 0 && is_inside_character(pair.chosen[length])) --length;
    if (differ_there && length > 0 && pair.chosen[length - 1] == ' ') --length;
    pair.prompt = pair.chosen.substr(0, length);
    pair.chosen.erase(0, length);
    pair.rejected.erase(0, length);
}

Value take_prompt_out(Value& chosen, Value& rejected) {
    Value::List& of_chosen = *chosen.list();
    Value::List& of_rejected = *rejected.list();
    size_t common = 0;
    while (common < std::min(of_chosen.size(), of_rejected.size()) &&
           to_json(of_chosen[common]) == to_json(of_rejected[common]))
        ++common;
    const auto length =
        static_cast<std::ptrdiff_t>(length_of_prompt(common, of_chosen.size(), of_rejected.size()));
    Value prompt(Value::List(of_chosen.begin(), of_chosen.begin() + length));
    of_chosen.erase(of_chosen.begin(), of_chosen.begin() + length);
    of_rejected.erase(of_rejected.begin(), of_rejected.begin() + length);
    return prompt;
}

}  // namespace ringshard::data
