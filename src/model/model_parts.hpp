#pragma once

#include <string>
#include <vector>

#include "block.hpp"
#include "head.hpp"
#include "parts/table_adapter.hpp"
#include "parts/trained_rows.hpp"
#include "ringshard/model/model_spec.hpp"

namespace ringshard::model {

// The parts of a model, which declare the parameters of its modules and know where they lie.
struct ModelParts {
    explicit ModelParts(const ModelSpec& spec, const Fusions& fusions = {});

    std::vector<shard::UnitLayout> modules;       // as ModuleIndex counts them
    shard::ParameterId table{};                   // [v, w], in the module of the embedding
    std::optional<shard::ParameterId> positions;  // [max_positions, w], in the same module
    std::optional<TableAdapter> table_adapter;
    std::optional<TrainedRows> table_rows;
    HeadParameters head{};
    // Of each of several adapters, if one of them trains modules outside of the blocks whole: its
    // own or the model's.
    std::vector<shard::ParameterId> own_tables;
    std::vector<HeadParameters> own_heads;
    std::vector<Block> blocks;

private:
    void add_own_heads(const ModelSpec& spec, shard::UnitLayout& unit);
};

// Returns the lowest block that a backward pass goes through: there is nothing to train below it.
// The number of blocks where only the head is trained.
size_t first_backward_block(const ModelParts& parts);

}  // namespace ringshard::model
