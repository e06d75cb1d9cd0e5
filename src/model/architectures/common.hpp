#pragma once

#include "architecture.hpp"

// Functions that several families of models share.
namespace ringshard::model {

// Defaults of transformers for fields that config.json leaves out. 0: they follow from other
// fields.
struct Defaults {
    int64_t head_dim = 0;
    int64_t key_heads = 0;
    double norm_epsilon = 1e-6;
    std::optional<int64_t> padding_token{};
};

// Returns a model of equal blocks as BlockSpec has them by itself: norms before both branches, no
// biases, no norms of heads, no windows.
ModelSpec read_plain_model(ConfigReader& config, const Defaults& defaults);

// Gives the projections of the attention biases where attention_bias says so; refuses mlp_bias.
void read_biases(ConfigReader& config, ModelSpec& spec);

// Returns sliding_window: `usual` where config.json has no such field, nothing where it is null.
std::optional<int64_t> read_window(ConfigReader& config, std::optional<int64_t> usual);
// Gives blocks the window where use_sliding_window and layer_types, or max_window_layers, say so.
void read_windows_of_layers(ConfigReader& config, ModelSpec& spec);

inline constexpr int64_t usual_window = 4096;  // of transformers

}  // namespace ringshard::model
