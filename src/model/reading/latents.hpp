#pragma once

#include "common.hpp"

namespace ringshard::model {

// What families with latents do not share.
struct LatentDefaults {
    Defaults model{};
    LatentSpec latent{.rank = 512, .query_rank = 1536, .rotated = 64, .value_dim = 128};
    int64_t plain = 128;  // elements of a head that do not rotate
    bool rotates = true;
    bool ignores_further_blocks = false;
};

// Reads a model whose blocks attend to latents.
ModelSpec read_latent_model(ConfigReader& config, const LatentDefaults& defaults);

}  // namespace ringshard::model
