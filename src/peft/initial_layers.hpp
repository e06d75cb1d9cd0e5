#pragma once

#include <string>
#include <vector>

#include "ringshard/model/model_spec.hpp"

namespace ringshard::peft {

// A linear layer that has an adapter.
struct AdaptedLayer {
    std::string name;
    model::AdapterSpec adapter;
    int64_t out;
    int64_t in;
};

// Returns the layers with adapters of this rank's share, which costs about as much as any other's.
std::vector<AdaptedLayer> share_of_layers(const model::ModelSpec& spec, int rank, int num_ranks);
std::vector<AdaptedLayer> adapted_layers(const model::ModelSpec& spec);

}  // namespace ringshard::peft
