#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ringshard/attention/plan.hpp"
#include "ringshard/attention/sequence_attention.hpp"

// The parts that a block is made of, and their sizes: an architecture is a list of these.
namespace ringshard::model {

// Norms around a branch of a block: y = x + behind(branch(before(x))). Names of tensors without
// ".weight"; empty where there is no norm.
struct BranchNormSpec {
    std::string before;
    std::string behind;
};

// An RMSNorm of queries and keys: of every head by itself, with one weight for all of them, or of
// all heads together.
enum class HeadNormKind { none, each_head, all_heads };

struct AttentionSpec {
    attention::HeadCounts heads{};
    bool is_fused = false;  // queries, keys and values are one tensor
    bool has_bias = false;  // of the query, key and value projections
    bool has_out_bias = false;
    HeadNormKind head_norm = HeadNormKind::none;
    attention::Mask mask{};

    int64_t out_width() const { return heads.query_heads * heads.head_dim; }
    int64_t qkv_width() const { return (heads.query_heads + 2 * heads.key_heads) * heads.head_dim; }
};

// down(silu(gate) * up).
struct MlpSpec {
    int64_t intermediate = 0;
    bool is_fused = false;  // gate and up are one tensor
};

// A low-rank adapter of a linear layer: y += scaling x B A dropout(x), A [rank, in], B [out, rank].
struct AdapterSpec {
    int64_t rank = 0;
    double scaling = 0;
    double dropout = 0;  // probability
};

struct BlockSpec {
    int64_t width = 0;  // hidden_size
    double norm_epsilon = 0;
    BranchNormSpec attention_norms{.before = "input_layernorm", .behind = {}};
    AttentionSpec attention{};
    BranchNormSpec mlp_norms{.before = "post_attention_layernorm", .behind = {}};
    MlpSpec mlp{};
    std::map<std::string, AdapterSpec> adapters{};  // by linear layer, as "mlp.down_proj"
};

}  // namespace ringshard::model
