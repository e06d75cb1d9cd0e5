#pragma once

#include <string>
#include <vector>

#include "block.hpp"
#include "head.hpp"
#include "layer_embeddings.hpp"
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
    std::optional<LayerEmbeddings> layer_embeddings;
    std::optional<TableAdapter> table_adapter;
    std::optional<TrainedRows> table_rows;
    std::vector<std::optional<shard::ParameterId>> own_tables;  // of each learner
    HeadParameters head{};                                      // of the model alone
    // Of each learner, with what it has in place of the model's and beside it. None where all have
    // the model's alone.
    std::vector<HeadParameters> heads;
    std::vector<Block> blocks;

private:
    void add_tables(const ModelSpec& spec, shard::UnitLayout& unit);
    void add_heads(const ModelSpec& spec, shard::UnitLayout& unit);
    void add_layer_embeddings(const ModelSpec& spec);
    // What is frozen, which rules change updates, and the form of what rests in codes.
    void apply_choices(const ModelSpec& spec);
};

// Whether some table of the embedding is trained.
bool trains_table(const ModelParts& parts);
// Whether the table of the embeddings of layers is trained, or the projection to them.
bool trains_layer_embeddings(const ModelParts& parts);

// Returns the lowest block that a backward pass goes through: there is nothing to train below it.
// The number of blocks where only the head is trained.
size_t first_backward_block(const ModelParts& parts);

}  // namespace ringshard::model
