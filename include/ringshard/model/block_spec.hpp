#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ringshard/attention/plan.hpp"
#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/attention/sequence_delta.hpp"
#include "ringshard/ops/activation.hpp"
#include "ringshard/ops/routing.hpp"
#include "ringshard/ops/score_form.hpp"

// The parts that a block is made of, and their sizes: an architecture is a list of these.
namespace ringshard::model {

// An RMSNorm, or a LayerNorm.
struct NormForm {
    double epsilon = 0;
    bool is_centred = false;  // LayerNorm: the mean is subtracted
    bool has_weight = true;   // a LayerNorm may be without one
    bool has_bias = false;    // of a LayerNorm
    bool adds_one = false;    // the factor is 1 + weight
};

// Norms around the part of a layer. Names of tensors without ".weight"; empty where there is no
// norm.
struct LayerNorms {
    std::string before;
    std::string behind;
};

// An RMSNorm of queries and keys: of every head by itself, with one weight for all of them, or of
// all heads together.
enum class HeadNormKind { none, each_head, all_heads };

// Gates of what the heads of an attention have seen, products of its input: rows of the query
// projection behind each head, whose sigmoid multiplies; those of gate_proj, likewise; or those of
// g_proj, whose softplus multiplies heads or elements of heads, or whose sigmoid multiplies heads.
enum class HeadGates : uint8_t {
    none,
    in_queries,
    sigmoid,
    softplus_of_heads,
    softplus,
    sigmoid_of_heads
};

// Keys and values that several blocks attend to, by the number of the group: the last block that
// has its own makes those of the group, and the blocks behind it have none.
struct SharedKeys {
    size_t group = 0;
    bool makes_them = false;
};

// The specs of what a layer computes. Those of mixers have, where tokens see others by scores,
// `heads` and `mask`; where a state brings them, `sizes`.

struct AttentionSpec {
    static constexpr const char* kind = "attention";
    attention::HeadCounts heads{};
    bool is_fused = false;  // queries, keys and values are one tensor, `qkv`
    // Its rows are, for each key head: its query heads, the key head, the value head.
    bool is_fused_by_heads = false;
    bool values_are_keys = false;  // as the projection makes these: there is no v_proj
    std::string qkv = "self_attn.qkv_proj";
    bool has_bias = false;  // of the query, key and value projections
    bool has_out_bias = false;
    std::string module = "self_attn";  // of q_proj, k_proj and v_proj, where these are not one
    std::string out = "self_attn.o_proj";
    HeadNormKind head_norm = HeadNormKind::none;
    bool norms_rotated_heads = false;  // heads are normed after they have rotated, not before
    std::string query_norm = "self_attn.q_norm";
    std::string key_norm = "self_attn.k_norm";
    bool norms_values = false;       // each head, without a weight
    std::optional<size_t> rope = 0;  // of ModelSpec::ropes; nothing: the heads do not rotate
    attention::Mask mask{};
    HeadGates gates = HeadGates::none;
    // The tensor of a learned score of each head that takes part in every softmax and brings no
    // value; empty: none.
    std::string sinks{};
    std::optional<SharedKeys> shared_keys{};
    int64_t value_dim = 0;    // of narrower values; 0: they are as wide as keys
    double value_factor = 1;  // of values, as v_proj makes them
    ops::ScoreForm scores{};

    bool has_keys() const { return !shared_keys || shared_keys->makes_them; }
    int64_t value_width() const { return value_dim > 0 ? value_dim : heads.head_dim; }
    int64_t out_width() const { return heads.query_heads * value_width(); }
    int64_t qkv_width() const { return (heads.query_heads + 2 * heads.key_heads) * heads.head_dim; }
};

// Attention to keys and values of all heads that are products of one latent of a token; the
// elements of a key that rotate, its last ones, are the same in all heads. Queries may come from a
// latent of their own. Both latents are normed.
struct LatentSpec {
    static constexpr const char* kind = "attention";
    attention::HeadCounts heads{};  // each has a key; as wide as the wider of key and value
    int64_t key_dim = 0;            // of queries and keys
    int64_t rank = 0;
    int64_t query_rank = 0;  // 0: queries are one product
    int64_t rotated = 0;     // elements of a head
    int64_t value_dim = 0;
    NormForm norm{};
    bool has_bias = false;  // of the products of the input with a latent as their result
    bool has_out_bias = false;
    std::string module = "self_attn";  // of its tensors
    std::string out = "self_attn.o_proj";
    HeadGates gates = HeadGates::none;  // or sigmoid_of_heads
    std::optional<size_t> rope = 0;     // as in AttentionSpec
    attention::Mask mask{};
    ops::ScoreForm scores{};
};

// The products of a delta net with its input. Those apart are in_proj_qkv, _z, _b and _a. Grouped,
// queries, keys, values and gates of the output are one tensor, and so are b and a, each with the
// rows of a key head side by side. Those of heads are q_proj, k_proj, v_proj, b_proj, a_proj (with
// a decay for each row f_proj) and g_proj (gates), and queries, keys and values have a convolution
// each.
enum class DeltaLayers : uint8_t { apart, grouped, of_heads };

// The gated delta net, between two projections: a state of each value head in place of keys and
// values of all earlier tokens.
struct DeltaNetSpec {
    static constexpr const char* kind = "linear_attention";
    attention::DeltaSizes sizes{};
    DeltaLayers layers = DeltaLayers::apart;
    std::string module = "linear_attn";  // of its tensors
    std::string out = "linear_attn.out_proj";
    double norm_epsilon = 0;  // of the norm behind the state; 0: that of the block
    ops::Opening opening = ops::Opening::silu;
    // As in ops::DecayWeights.
    double least_log_decay = 0;
    double beta_scale = 1;
};

// The same with a decay for each row of a state, where decays and gates of the output come from
// rows of a low rank: tensors of "self_attn".
struct DeltaByRowSpec {
    static constexpr const char* kind = "linear_attention";
    attention::DeltaSizes sizes{};
    int64_t rank = 0;
};

// The state space of Mamba2, between two projections: the additive rule, whose keys and queries are
// B and C.
struct MambaSpec {
    static constexpr const char* kind = "mamba";
    attention::DeltaSizes sizes{};
    std::string module = "mamba";  // of its tensors
    bool has_bias = false;         // of the projection of the input
    bool has_out_bias = false;
    bool has_conv_bias = false;
    int64_t norm_groups = 1;  // of columns, which the norm behind the state takes by themselves
    bool has_norm = true;     // else the gates alone multiply what the state holds
    // Of gates, values, keys, queries and lengths of steps, as they were projected.
    std::array<double, 5> multipliers{1, 1, 1, 1, 1};
    double least_step = 0;  // steps are not shorter
};

// A gated short convolution, between two projections: tensors of "conv". Of a state it has the rows
// before alone: its keys have no elements.
struct ShortConvSpec {
    static constexpr const char* kind = "conv";
    attention::DeltaSizes sizes{};
    int64_t taps = 0;
    bool has_bias = false;  // of the projections and of the convolution
};

// down(activation(gate) * up), or down(activation(up)).
struct MlpSpec {
    static constexpr const char* kind = "dense";
    int64_t intermediate = 0;
    bool is_fused = false;  // gate and up are one tensor
    bool is_gated = true;
    bool has_bias = false;
    ops::Activation activation = ops::Activation::silu;
    bool has_xielu = false;  // in its place, without a gate: mlp.act_fn.alpha_p, .alpha_n
    double gate_multiplier = 1;
    std::string gate = "mlp.gate_proj";
    std::string up = "mlp.up_proj";
    std::string gate_up = "mlp.gate_up_proj";  // where it is fused
    std::string down = "mlp.down_proj";
};

// How the files hold the experts of a block: one tensor for each matrix; or one tensor of all
// experts for gate and up and one for down: [experts, out, in] are stacked, [experts, in, out] are
// transposed. Those that are turned are transposed too, the columns of gate and up take turns, and
// all layers have biases.
enum class ExpertTensors { single, stacked, turned, transposed };

// (1 + up) * gate * sigmoid(alpha * gate), with gate at most the limit and up within it.
struct ClampedSwiglu {
    double alpha = 1.702;
    double limit = 7;
};

// An MLP beside experts that reads the residual stream, through a norm of its own. Its result and
// that of the experts are normed, and then added.
struct BesideExperts {
    MlpSpec mlp;
    LayerNorms norms{};
    std::string behind_experts;  // their norm
};

// A router and experts in the place of an MLP: each token goes through the experts to which the
// router gives the largest probabilities, and gets the sum of their results, weighted by these. An
// expert is an MLP, as a rule with a gate.
struct ExpertsSpec {
    static constexpr const char* kind = "experts";
    int64_t count = 0;
    int64_t per_token = 0;
    int64_t intermediate = 0;  // of one expert
    ops::RouterForm routing{};
    bool routes_in_fp32 = false;  // the router multiplies in fp32, whatever the compute type
    // A tensor of numbers of the experts, in fp32 and not trained, which are added to their
    // probabilities before a token chooses; empty: none. Files may have it as one row.
    std::string correction{};
    bool correction_is_row = false;
    bool is_gated = true;
    ops::Activation activation = ops::Activation::silu;
    ExpertTensors tensors = ExpertTensors::single;
    ClampedSwiglu clamped{};  // in place of the activation, of turned tensors
    bool router_has_bias = false;
    bool router_is_layer = false;     // PEFT knows it by the name in files, whatever the tensors
    std::optional<MlpSpec> shared{};  // an MLP through which every token goes too
    std::string shared_gate{};        // whose sigmoid multiplies its result; empty: none
    std::string router = "mlp.gate";
    std::string experts = "mlp.experts";  // of whose tensors one is "mlp.experts.7.up_proj.weight"
    std::string gate = "gate_proj";
    std::string up = "up_proj";  // of stacked tensors, gate and up
    std::string down = "down_proj";
    // Of a router that reads the residual stream, normed: the tensor by which the rows are
    // multiplied, beside the root of 1 / width; empty: it reads what the experts read.
    std::string router_scale{};
    // The tensor of numbers by which the weights of experts are multiplied; empty: none.
    std::string expert_scales{};
    std::optional<BesideExperts> beside{};
    // In a plan: the first experts, which get all rows, equally many each; 0: all experts.
    int64_t planned_experts = 0;

    bool has_bias() const { return tensors == ExpertTensors::turned; }
    // Whether the files have the transposes of the matrices.
    bool has_transposes() const {
        return tensors == ExpertTensors::transposed || tensors == ExpertTensors::turned;
    }
    // Columns of gate and up of one expert.
    int64_t inner_width() const { return (is_gated ? 2 : 1) * intermediate; }
};

// down(activation(gate) * e), where e [t, width] is the block's part of the embeddings of layers
// (ModelSpec::layer_embeddings).
struct LayerEmbeddingSpec {
    static constexpr const char* kind = "embedding";
    int64_t width = 0;
    ops::Activation activation = ops::Activation::gelu_tanh;
    std::string gate = "per_layer_input_gate";
    std::string down = "per_layer_projection";
};

// A low-rank adapter of a linear layer W: y += scaling x B A dropout(x), A [rank, in],
// B [out, rank]. With a magnitude m [out] (DoRA) row o of W + scaling x B A is scaled to the norm
// m[o].
struct AdapterSpec {
    int64_t rank = 0;
    double scaling = 0;
    double dropout = 0;  // probability
    bool has_magnitude = false;
    bool has_bias = false;  // of B
};

// What a learner trains beside a block, or beside the parts of a model outside of its blocks. The
// only adapter of a run has no name. Several train together on rows of their own, and the names of
// their tensors have that of the adapter behind lora_A and lora_B.
struct NamedAdapter {
    std::string name{};
    std::map<std::string, AdapterSpec> layers{};  // by linear layer; may be none
    // What one of several has in place of the model's: in a block the biases of these linear
    // layers, outside of blocks the modules of these names.
    std::set<std::string> own{};
};

// In a mixer tokens see others, in a feed-forward each is by itself.
using MixerSpec =
    std::variant<AttentionSpec, LatentSpec, DeltaNetSpec, DeltaByRowSpec, MambaSpec, ShortConvSpec>;
using FeedForwardSpec = std::variant<MlpSpec, ExpertsSpec>;

// A layer of a block adds to the residual stream x: y = x + factor * behind(part(before(x))).
template <class PartSpec>
struct LayerSpec {
    PartSpec part;
    LayerNorms norms{};
    // It reads the rows that the layer before it reads, as the MLP beside an attention. Without a
    // norm of its own it has that layer's.
    bool is_parallel = false;
    double factor = 1;  // beside that of all layers of the block
};

// How a matrix of a linear layer lies in its files, and so everywhere: a row for each output, or
// turned, a row for each input.
enum class MatrixForm : uint8_t { of_outputs, turned };

// Mixers and a feed-forward behind them; there may be one of the two kinds alone.
struct BlockSpec {
    int64_t width = 0;  // hidden_size
    NormForm norm{};    // of all norms of the block
    std::vector<LayerSpec<MixerSpec>> mixers{
        {.part = AttentionSpec{}, .norms = {.before = "input_layernorm", .behind = {}}}};
    std::optional<LayerSpec<FeedForwardSpec>> last{LayerSpec<FeedForwardSpec>{
        .part = MlpSpec{}, .norms = {.before = "post_attention_layernorm", .behind = {}}}};
    std::optional<LayerSpec<LayerEmbeddingSpec>> embedding{};  // behind these
    std::vector<NamedAdapter> adapters{};  // of each learner; layers are named as "mlp.down_proj"
    // Each bias of layers that are one product is a parameter by itself: some of them are frozen.
    bool has_biases_apart = false;
    double residual_multiplier = 1;  // the factor of all layers
    // A tensor of one number, not trained, by which the residual stream behind the
    // block is multiplied; empty: none.
    std::string stream_factor{};
    MatrixForm matrices = MatrixForm::of_outputs;

    // Most blocks have one mixer.
    LayerSpec<MixerSpec>& mixer() { return mixers.front(); }
    const LayerSpec<MixerSpec>& mixer() const { return mixers.front(); }
    AttentionSpec& attention() { return std::get<AttentionSpec>(mixer().part); }
    const AttentionSpec& attention() const { return std::get<AttentionSpec>(mixer().part); }
    LayerSpec<FeedForwardSpec>& feed_forward() { return last.value(); }
    const LayerSpec<FeedForwardSpec>& feed_forward() const { return last.value(); }
    MlpSpec& mlp() { return std::get<MlpSpec>(feed_forward().part); }
    const MlpSpec& mlp() const { return std::get<MlpSpec>(feed_forward().part); }

    // Returns nullptr if it has none.
    const ExpertsSpec* experts() const {
        return last ? std::get_if<ExpertsSpec>(&last->part) : nullptr;
    }
    ExpertsSpec* experts() { return last ? std::get_if<ExpertsSpec>(&last->part) : nullptr; }
};

// Returns the sizes of the state of a mixer; nullptr if it has none.
inline const attention::DeltaSizes* state_sizes(const MixerSpec& mixer) {
    return std::visit(
        [](const auto& spec) -> const attention::DeltaSizes* {
            if constexpr (requires { spec.sizes; }) return &spec.sizes;
            return nullptr;
        },
        mixer);
}

// Returns the heads of a mixer.
inline attention::HeadCounts heads_of(const MixerSpec& mixer) {
    return std::visit(
        [](const auto& spec) {
            if constexpr (requires { spec.sizes; })
                return spec.sizes.heads();
            else
                return spec.heads;
        },
        mixer);
}

// Returns how tokens see each other in a mixer.
inline attention::Mask mask_of(const MixerSpec& mixer) {
    return std::visit(
        [](const auto& spec) {
            if constexpr (requires { spec.mask; })
                return spec.mask;
            else
                return attention::Mask{.through_state = true};
        },
        mixer);
}

}  // namespace ringshard::model
