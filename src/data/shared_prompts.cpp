#include "shared_prompts.hpp"

#include <algorithm>

#include "ringshard/base/error.hpp"

namespace ringshard::data {

void share_prompt(FlatBatch& batch) {
    RINGSHARD_CHECK(batch.document_starts.size() % 2 == 0, "a pair has two documents");
    const size_t last = batch.document_starts.size() - 1;
    const auto begin = batch.tokens.begin() + batch.document_starts[last];
    const auto differs =
        std::mismatch(begin, batch.tokens.end(),
                      batch.tokens.begin() + batch.document_starts[last - 1], begin)
            .first;
    const auto targets = batch.targets.begin() + batch.document_starts[last];
    const auto learned = std::find_if(targets, batch.targets.end() - 1,
                                      [](int64_t target) { return target != no_label; });
    const int64_t length = std::min(differs - begin, learned - targets);
    if (length == 0) return;
    const auto drop = [&](auto& of_tokens) {
        if (of_tokens.empty()) return;
        const auto first = of_tokens.begin() + batch.document_starts[last];
        of_tokens.erase(first, first + length);
    };
    drop(batch.tokens);
    drop(batch.targets);
    drop(batch.weights);
    drop(batch.places);
    batch.branches.push_back({last, last - 1, length});
}

}  // namespace ringshard::data
