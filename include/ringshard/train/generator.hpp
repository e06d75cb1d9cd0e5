#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ringshard/comm/group.hpp"
#include "ringshard/data/prompts.hpp"
#include "ringshard/model/transformer.hpp"
#include "ringshard/train/numbers.hpp"

namespace ringshard::train {

// Generates greedily from fixed prompts. Every rank of the world gets prompts, also within a
// sequence group: it attends to whole texts, with caches of their keys and values or of their
// states. Modules are gathered one after another as in every pass.
class Generator {
public:
    struct Options {
        int64_t max_new_tokens;
        std::vector<int32_t> end_tokens;  // each ends a text
        // Decodes a generated text. Called on rank 0.
        std::function<std::string(std::span<const int32_t>)> to_text;
    };
    // `prompts`: one at least, the same on all ranks.
    Generator(std::vector<data::Prompt> prompts, Options options, const comm::Group& world,
              at::Device device, const model::Transformer& model);

    // Returns a sample of each prompt by this learner on rank 0, and nothing elsewhere. Collective
    // over the world.
    std::vector<TextSample> generate(size_t learner) const;

private:
    using Tokens = std::vector<int32_t>;
    // The next pass over the texts of this rank.
    struct Pass {
        model::TokenBatch batch;
        at::Tensor places;           // of its tokens in the caches
        std::vector<int64_t> begun;  // texts that it takes from their beginning
    };
    Pass pass_after(const std::vector<Tokens>& generated) const;
    std::vector<int64_t> bounds_of(size_t learner, int64_t num_tokens) const;
    static void prepare(model::LayerCache& cache, const Pass& pass);
    bool is_at_end(const Tokens& generated) const;
    std::vector<Tokens> generate_mine(size_t learner) const;

    std::vector<data::Prompt> prompts_;
    std::vector<size_t> mine_;  // prompts of this rank, one at least
    int64_t capacity_ = 0;      // places of one text in the caches
    Options options_;
    const comm::Group& world_;
    at::Device device_;
    const model::Transformer& model_;
};

}  // namespace ringshard::train
