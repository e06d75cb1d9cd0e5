#pragma once

#include "common.hpp"

namespace ringshard::model {

// What families with latents do not share.
struct LatentDefaults {
    Defaults model{};
    LatentSpec latent{};
    int64_t plain = 128;  // elements of a head that do not rotate
    bool rotates = true;
};

// Reads a model whose blocks attend to latents.
ModelSpec read_latent_model(ConfigReader& config, const LatentDefaults& defaults);

}  // namespace ringshard::model
