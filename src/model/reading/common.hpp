#pragma once

#include <functional>
#include <vector>

#include "../read_rope.hpp"
#include "architecture.hpp"

// Functions that several families of models share.
namespace ringshard::model {

// Upper limits of sizes: larger values are typing errors. Products of sizes fit in 63 bits.
constexpr int64_t widest = int64_t{1} << 22;
constexpr int64_t most_blocks = 4096;

// The names of sizes.
struct SizeNames {
    const char* width = "hidden_size";
    const char* blocks = "num_hidden_layers";
    const char* heads = "num_attention_heads";
    const char* positions = "max_position_embeddings";
};

// Defaults of transformers for fields that config.json leaves out, and the names of fields that
// families name differently. 0: they follow from other fields.
struct Defaults {
    int64_t num_blocks = 0;  // not 0: in place of num_hidden_layers
    int64_t head_dim = 0;
    int64_t key_heads = 0;
    NormForm norm{.epsilon = 1e-6};
    const char* norm_name = "rms_norm_eps";  // nullptr: there is no such field
    SizeNames names{};
    const char* intermediate_name = "intermediate_size";
    int64_t width_multiple = 0;  // not 0: of intermediate_size by the width, where it is left out
    int64_t max_positions = 32768;
    std::optional<int64_t> padding_token{};
    bool learns_padding = false;  // transformers' embedding leaves no token out
    bool tied = false;
    const char* activation = "silu";
    const char* activation_name = "hidden_act";
    bool knows_xielu = false;
    RopeForm rope{};
    bool has_ropes_by_layer = false;  // the family reads its positions by itself
    double initializer_range = 0.02;
    bool reads_mxfp4 = false;  // the experts may be stored in MXFP4
};

// Returns a model of equal blocks as BlockSpec has them by itself: norms before both branches, no
// biases, no norms of heads, no windows.
ModelSpec read_plain_model(ConfigReader& config, const Defaults& defaults);

// Returns the form of a model's positions, with its sizes.
RopeForm rope_form(const ModelSpec& spec, const Defaults& defaults);

// Reads the scale of queries at far positions, of two fields of rope_parameters.
void read_query_scale(ConfigReader& config, ModelSpec& spec);

// Gives the projections of the attention, and of the MLP, biases where attention_bias and mlp_bias
// say so.
struct BiasDefaults {
    bool attention = false;
    bool has_out = true;  // attention_bias is the output's too
    bool mlp = false;
};
void read_biases(ConfigReader& config, ModelSpec& spec, const BiasDefaults& defaults = {});
// Reads the biases of families whose MLP has none.
void read_attention_bias(ConfigReader& config, ModelSpec& spec, const BiasDefaults& defaults = {});
void read_mlp_bias(ConfigReader& config, ModelSpec& spec, bool usual);

// Reads the sizes of routers and experts, and the share of the loss that balances them. The
// defaults are those of transformers.
struct ExpertDefaults {
    int64_t count;      // 0: config.json has to name it
    int64_t per_token;  // 0: the same
    const char* intermediate_name;
    std::optional<double> aux_loss;    // nothing: the family has no such loss
    const char* count_name = nullptr;  // nullptr: num_experts or num_local_experts
    const char* per_token_name = "num_experts_per_tok";
};
// Returns whether each block has an MLP in place of experts, by mlp_only_layers and
// decoder_sparse_step.
std::vector<bool> read_dense_blocks(ConfigReader& config, size_t num_blocks);
ExpertsSpec read_experts(ConfigReader& config, ModelSpec& spec, const ExpertDefaults& defaults);
// Leaves out the loss that balances experts: transformers counts for it the experts that routers
// would choose without their corrections.
void leave_out_router_loss(ModelSpec& spec);

// Reads experts beside an MLP with a gate of its own, the weights of a token's experts normed.
struct GatedDefaults {
    int64_t count;
    int64_t per_token;
    int64_t shared;  // intermediate size of the MLP
};
ExpertsSpec read_gated_experts(ConfigReader& config, ModelSpec& spec,
                               const GatedDefaults& defaults);

// Reads experts beside an MLP, whose routers take the sigmoid and a correction, and may choose
// among groups.
struct GroupedDefaults {
    int64_t count = 0;
    int64_t per_token = 0;
    int64_t shared = 1;  // the MLP is as wide as so many experts
    bool normalises = true;
    double scaling = 1.0;
    const char* count_name = "n_routed_experts";
    const char* shared_name = "n_shared_experts";
    const char* per_token_name = "num_experts_per_tok";
    const char* normalises_name = "norm_topk_prob";
    const char* groups_name = "n_group";
    int64_t groups = 1;
    int64_t chosen_groups = 1;
};
ExpertsSpec read_grouped_experts(ConfigReader& config, ModelSpec& spec,
                                 const GroupedDefaults& defaults);
// Returns the MLP of "mlp.shared_experts", as wide as so many of these experts.
MlpSpec shared_experts(const ExpertsSpec& experts, int64_t count);
// The same of experts without gates, beside an MLP without one. module: of the names of tensors.
ExpertsSpec read_bare_experts(ConfigReader& config, ModelSpec& spec, const MlpSpec& mlp,
                              const std::string& module);
// Returns the number of first blocks with an MLP in place of experts.
int64_t read_first_dense(ConfigReader& config, int64_t usual,
                         const char* name = "first_k_dense_replace");
// The same by mlp_layer_types, where it is there: all blocks from that number on have experts.
int64_t read_first_sparse(ConfigReader& config, size_t num_blocks, int64_t usual = 1);
void set_experts_behind_dense(ModelSpec& spec, const ExpertsSpec& experts, int64_t first_dense);

// transformers reads no such field here: its value must be the one that it goes by, or `instead`
// has what is meant.
void refuse_unread(ConfigReader& config, const char* name, int64_t taken, const char* instead);
// Gives every projection of the blocks a bias where use_bias says so.
void read_use_bias(ConfigReader& config, ModelSpec& spec, bool usual);
// Complains where every head has no keys of its own, or the heads are not as wide as the model.
void check_plain_heads(ConfigReader& config, const ModelSpec& spec, const char* family);
// Complains where one of these is left out, which transformers takes for 0.1 then.
void refuse_usual_dropout(ConfigReader& config, std::initializer_list<const char*> names);
// Complains where a field is true that stands for something that is not served.
void refuse_flag(ConfigReader& config, const char* name);
// Returns a cap of scores or logits: 0 where the field is null.
double read_cap(ConfigReader& config, const char* name, double usual);
// Returns so many numbers above 0, ones where the field is null.
std::vector<double> read_factors(ConfigReader& config, const char* name, size_t count);
// Returns the factor of rows that products read: that of the products as well, but not of biases.
double read_factor_of_rows(ConfigReader& config, const char* name, const char* bias);

// Returns sliding_window: `usual` where config.json has no such field, nothing where it is null.
std::optional<int64_t> read_window(ConfigReader& config, std::optional<int64_t> usual);
// Returns whether each block looks through the window, by layer_types; `usual` without it.
std::vector<bool> read_layer_types(ConfigReader& config, size_t num_blocks,
                                   const std::function<bool(size_t)>& usual);
// Returns whether each block has a state in place of keys and values, by the list of a field.
std::vector<bool> read_state_layers(ConfigReader& config, const char* field, size_t num_blocks,
                                    const std::string& state = "linear_attention");
// The same by a list of the blocks that attend.
std::vector<bool> read_unlisted_layers(ConfigReader& config, const char* field, size_t num_blocks);
// The same by layer_types, or without it of all but the last block of each group.
std::vector<bool> read_grouped_states(ConfigReader& config, size_t num_blocks, int64_t group);
// Reads linear_num_key_heads and the other sizes of delta nets.
attention::DeltaSizes read_delta_sizes(ConfigReader& config, const attention::DeltaSizes& usual);
// Returns the sizes of states with a decay for each row and heads of one width. name: of the field.
attention::DeltaSizes square_states(ConfigReader& config, const char* name, int64_t heads,
                                    int64_t dim);
// Complains unless a convolution has the taps of delta nets.
void check_taps(ConfigReader& config, const char* name, int64_t taps);
// Returns a letter for the layer of each block, where a block is one layer: M for Mamba2, * for
// attention, - for an MLP and E for experts, as hybrid_override_pattern has them; layers_block_type
// has their names.
std::string read_layer_letters(ConfigReader& config);
// Reads the sizes and biases of Mamba layers. columns: of values, where the family has mamba_d_ssm
// and it is left out; mamba_expand says so without it.
MambaSpec read_mamba(ConfigReader& config, const ModelSpec& spec,
                     std::optional<int64_t> columns = {});
// The same in the terms of heads: mamba_num_heads, mamba_head_dim, n_groups, ssm_state_size.
MambaSpec read_mamba_by_head(ConfigReader& config);
// As read_layer_types(), where by default every sliding_window_pattern-th block, or `usual`-th,
// sees everything.
std::vector<bool> read_window_pattern(ConfigReader& config, size_t num_blocks, int64_t usual);
void set_window_of_all(ModelSpec& spec, std::optional<int64_t> window);
// Blocks that see everything do not rotate.
void rotate_windows_alone(ModelSpec& spec);
// Norms stand behind the branches of a block, and none before them.
void set_norms_behind(BlockSpec& block);
// Norms stand before the branches of a block and behind them.
void set_four_norms(BlockSpec& block);
// Gives the positions of read_ropes_by_layer() to the blocks.
void set_ropes(ModelSpec& spec, const std::vector<bool>& windows);
// Reads layer_types, sliding_window and the positions of either kind of layer, of families whose
// positions transformers reads from rope_parameters alone: without them layers that see everything
// rotate the first part of a head.
struct LayerDefaults {
    double rotated_part = 1;
    int64_t window;
    bool (*has_window)(size_t block) = [](size_t) { return false; };
};
void read_layers(ConfigReader& config, ModelSpec& spec, const Defaults& defaults,
                 const LayerDefaults& of_layers);
// Gives blocks the window where use_sliding_window and layer_types, or max_window_layers, say so.
size_t read_max_window_layers(ConfigReader& config);
void read_windows_of_layers(ConfigReader& config, ModelSpec& spec);

// Gives these blocks the window of sliding_window; complains if there are such blocks and no
// length.
void set_windows(ConfigReader& config, ModelSpec& spec, const std::vector<bool>& windows,
                 std::optional<int64_t> window);
// Chooses the blocks by layer_types, or else by `usual`, if use_sliding_window says that the model
// has windows.
void read_windows_in_use(ConfigReader& config, ModelSpec& spec, std::optional<int64_t> window,
                         const std::function<bool(size_t)>& usual);
void refuse_window_without_length(ConfigReader& config);

inline constexpr int64_t usual_window = 4096;  // of transformers

// What families with latents do not share.
struct LatentDefaults {
    Defaults model{};
    LatentSpec latent{.rank = 512, .query_rank = 1536, .rotated = 64, .value_dim = 128};
    int64_t plain = 128;  // elements of a head that do not rotate
    bool rotates = true;
    bool ignores_further_blocks = false;
    bool ignores_head_dim = false;  // what head_dim says of a head stands in no other field
};

// Reads a model whose blocks attend to latents.
ModelSpec read_latent_model(ConfigReader& config, const LatentDefaults& defaults);

// Models that hold a text model beside other parts (`...ForConditionalGeneration`). Without images
// they compute as their text model does.
struct Wrapper {
    const char* text_type;        // text_config.model_type where it is left out
    bool tied;                    // tie_word_embeddings
    bool may_tie_inside = false;  // tie_word_embeddings in text_config ties as well
    bool may_be_flat = false;     // without text_config, its fields lie at the top
};

ModelSpec read_wrapped_model(ConfigReader& config, const Wrapper& wrapper);

}  // namespace ringshard::model
