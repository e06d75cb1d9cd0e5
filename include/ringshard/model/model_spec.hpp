#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/base/expected.hpp"
#include "ringshard/model/rope_spec.hpp"
#include "ringshard/shard/flat_unit.hpp"

namespace ringshard::model {

// What config.json says about a model.
struct ModelSpec {
    std::string architecture;
    int64_t vocabulary = 0;         // rows of the embedding and of the head
    int64_t stored_vocabulary = 0;  // and in the model's files: tokens may be added
    int64_t width = 0;              // hidden_size
    int64_t intermediate = 0;       // of the MLP
    int64_t num_blocks = 0;
    attention::HeadCounts heads{};
    bool attention_bias = false;  // of the query, key and value projections
    bool out_bias = false;        // of the projection behind the attention
    bool is_fused = false;        // queries, keys and values are one tensor, so are gate and up
    bool has_head_norms = false;  // every query and key head is normed by itself
    bool tied = false;            // the head is the embedding
    double norm_epsilon = 0;
    RopeSpec rope;
    std::optional<int64_t> window;  // tokens that a token sees, itself included
    // transformers' embedding never learns this token, wherever it stands.
    std::optional<int64_t> padding_token;
    double initializer_range = 0.02;
    int64_t max_positions = 0;
    std::string config_json;  // of this model: the file's content, corrected where it differs

    int64_t qkv_width() const { return (heads.query_heads + 2 * heads.key_heads) * heads.head_dim; }
    // Gives the model a head of its own, in config_json too.
    void untie();
    // Gives the embedding and the head another number of rows, in config_json too.
    void resize(int64_t rows);
};

Expected<ModelSpec> read_model_spec(const std::filesystem::path& config_json);
// The same in two steps: a file is read once for a whole job.
Expected<std::string> read_config_json(const std::filesystem::path& config_json);
Expected<ModelSpec> parse_model_spec(const std::filesystem::path& config_json,
                                     const std::string& text);

// Floating-point operations of a forward and a backward pass over documents of num_tokens tokens in
// all, whose lengths squared add up to `pairs`: the products with weights, and causal attention.
double training_operations(const ModelSpec& spec, double num_tokens, double pairs);

// The units in the order in which they are used: embedding, blocks, final norm with head. A tied
// head is one unit with the embedding, which comes first.
std::vector<shard::FlatUnit> make_units(const ModelSpec& spec, int64_t num_parts);

// Which unit is which.
struct UnitIndex {
    explicit UnitIndex(const ModelSpec& spec)
        : head(spec.tied ? 0 : static_cast<size_t>(spec.num_blocks) + 1) {}
    size_t embedding = 0;
    size_t head;
    static size_t block(size_t number) { return number + 1; }
};

}  // namespace ringshard::model
