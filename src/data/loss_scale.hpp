#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/data/format.hpp"
#include "ringshard/text/chat_template.hpp"
#include "ringshard/text/tokenizer.hpp"

namespace ringshard::data {

// Weights of parts of an answer, by ms-swift's rules: ignore_empty_think, hermes, ... Each rule
// weighs the parts that the rule before it leaves, and the weights multiply.
class LossScale {
public:
    // `names`: of rules, in the order in which they apply.
    static Expected<LossScale> make(const std::vector<std::string>& names);

    // A part of an answer, in bytes, and its weight.
    struct Part {
        size_t begin;
        size_t end;
        float weight;
    };
    // Returns the parts of the answer, one behind another.
    Expected<std::vector<Part>> parts(std::string_view answer) const;

private:
    struct Rule;
    std::vector<std::shared_ptr<const Rule>> rules_;
};

// Weighs the targets of the answers in a text: a weight of 0 removes them. `answers`: without what
// ends a turn. `tokens`: the spans of the row's tokens.
std::optional<Failure> apply_loss_scale(const LossScale& scale, std::string_view text,
                                        std::span<const text::ByteRange> answers,
                                        std::span<const text::Span> tokens, EncodedRow& into);

}  // namespace ringshard::data
