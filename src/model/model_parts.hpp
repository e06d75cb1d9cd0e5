#pragma once

#include <vector>

#include "block.hpp"
#include "head.hpp"
#include "ringshard/model/model_spec.hpp"

namespace ringshard::model {

// The parts of a model, which declare the parameters of its units and know where they lie.
struct ModelParts {
    explicit ModelParts(const ModelSpec& spec);

    std::vector<shard::UnitLayout> units;  // as UnitIndex counts them
    shard::ParameterId table{};            // [v, w], in the unit of the embedding
    HeadParameters head{};
    std::vector<Block> blocks;
};

}  // namespace ringshard::model
