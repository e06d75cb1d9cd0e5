#include "model_parts.hpp"

#include <algorithm>

#include "ringshard/base/text.hpp"

namespace ringshard::model {

using shard::InitialValues;

std::string block_prefix(const ModelSpec& spec, size_t block) {
    return format_text("{}.{}.", spec.names.blocks, block);
}

ModelParts::ModelParts(const ModelSpec& spec) {
    shard::UnitLayout embedding(spec.tied ? "embedding and head" : "embedding");
    table = embedding.add({{{spec.names.embedding + ".weight", {spec.vocabulary, spec.width}}}});
    const auto add_head = [&](shard::UnitLayout& unit, shard::ParameterId projection) {
        head.projection = projection;
        head.norm.emplace(unit, Norm::Spec{spec.names.final_norm, spec.width, spec.norm});
        if (spec.has_head_bias)
            head.bias =
                unit.add({{{spec.names.head + ".bias", {spec.vocabulary}}}, InitialValues::zeros});
    };
    if (spec.tied) add_head(embedding, table);
    modules.push_back(std::move(embedding));

    blocks.reserve(spec.blocks.size());
    for (const BlockSpec& block : spec.blocks) {
        const size_t index = blocks.size();
        shard::UnitLayout& unit =
            modules.emplace_back(format_text("block {}", index), block_prefix(spec, index));
        blocks.emplace_back(unit, block);
    }
    if (!spec.tied) {
        shard::UnitLayout& unit = modules.emplace_back("head");
        add_head(unit, unit.add({{{spec.names.head + ".weight", {spec.vocabulary, spec.width}}}}));
    }
    for (shard::UnitLayout& module : modules) module.freeze(spec.frozen);
    for (size_t block = 0; block < blocks.size(); ++block)
        modules[ModuleIndex::block(block)].set_form(spec.frozen_form);
}

size_t first_backward_block(const ModelParts& parts) {
    const auto is_trained = [](const shard::ParameterGroup& group) {
        return group.role == shard::Role::trained;
    };
    if (parts.modules.front().role_of(parts.table) == shard::Role::trained) return 0;
    size_t block = 0;
    while (block < parts.blocks.size() &&
           std::ranges::none_of(parts.modules[ModuleIndex::block(block)].groups(), is_trained))
        ++block;
    return block;
}

std::vector<shard::FlatUnit> make_units(const ModelSpec& spec, int64_t num_parts,
                                        int64_t ranks_of_experts) {
    std::vector<shard::FlatUnit> units;
    const ModelParts parts(spec);
    for (size_t module = 0; module < parts.modules.size(); ++module)
        for (shard::FlatUnit& unit :
             parts.modules[module].finish(num_parts, module, ranks_of_experts))
            units.push_back(std::move(unit));
    return units;
}

}  // namespace ringshard::model
