#include "model_parts.hpp"

#include "ringshard/base/text.hpp"

namespace ringshard::model {

using shard::InitialValues;

ModelParts::ModelParts(const ModelSpec& spec) {
    shard::UnitLayout embedding(spec.tied ? "embedding and head" : "embedding");
    table = embedding.add({{{"model.embed_tokens.weight", {spec.vocabulary, spec.width}}}});
    const auto add_head = [&](shard::UnitLayout& unit, shard::ParameterId projection) {
        head = {projection, unit.add({{{"model.norm.weight", {spec.width}}}, InitialValues::ones})};
    };
    if (spec.tied) add_head(embedding, table);
    units.push_back(std::move(embedding));

    blocks.reserve(spec.blocks.size());
    for (const BlockSpec& block : spec.blocks) {
        const size_t index = blocks.size();
        shard::UnitLayout& unit =
            units.emplace_back(concat("block ", index), concat("model.layers.", index, "."));
        blocks.emplace_back(unit, block);
    }
    if (spec.tied) return;
    shard::UnitLayout& unit = units.emplace_back("head");
    add_head(unit, unit.add({{{"lm_head.weight", {spec.vocabulary, spec.width}}}}));
}

std::vector<shard::FlatUnit> make_units(const ModelSpec& spec, int64_t num_parts) {
    std::vector<shard::FlatUnit> units;
    for (const shard::UnitLayout& layout : ModelParts(spec).units)
        units.push_back(layout.finish(num_parts));
    return units;
}

}  // namespace ringshard::model
