#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/checkpoint/state_file.hpp"

namespace ringshard::checkpoint {

// A checkpoint does not hold weights that are frozen: it names them, and the folder that does.
struct FrozenWeights {
    struct Tensor {
        std::vector<int64_t> shape;
        std::string hash;  // shard::TensorSums
    };
    std::string base;  // the folder of the pretrained model, or a checkpoint that is used as one
    std::map<std::string, Tensor> tensors;

    std::set<std::string> names() const;
    std::map<std::string, std::string> hashes() const;
};

inline constexpr const char* frozen_text = "frozen";  // of a state file

std::string to_text(const FrozenWeights& frozen);
// Returns those that the state names; without tensors where it holds all weights. `file`: for
// messages.
Expected<FrozenWeights> frozen_weights_of(const StateFile& state, const std::string& file);

}  // namespace ringshard::checkpoint
