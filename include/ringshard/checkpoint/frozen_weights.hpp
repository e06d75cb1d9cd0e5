#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/checkpoint/state_file.hpp"

namespace ringshard::checkpoint {

// A checkpoint does not hold frozen weights: it names them and the folder that holds them.
struct FrozenWeights {
    struct Tensor {
        std::vector<int64_t> shape;
        std::string hash;  // shard::TensorSums
    };
    std::string base;  // the folder of the pretrained model, or of a checkpoint
    std::map<std::string, Tensor> tensors;

    std::set<std::string> names() const;
    std::map<std::string, std::string> hashes() const;
};

inline constexpr const char* frozen_text = "frozen";  // name of a text in a state file

std::string to_text(const FrozenWeights& frozen);
// Returns the frozen weights that the state names; no tensors if it holds all weights. `file`: for
// messages.
Expected<FrozenWeights> frozen_weights_of(const StateFile& state, const std::string& file);

}  // namespace ringshard::checkpoint
