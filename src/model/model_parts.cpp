#include "model_parts.hpp"

#include <set>

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

Operations operations_of(const ModelSpec& spec, config::ActivationPolicy policy) {
    Operations operations{.products = 2 * static_cast<double>(spec.vocabulary) *
                                      static_cast<double>(spec.width)};
    for (const Block& block : ModelParts(spec).blocks) operations += block.operations(policy);
    return operations;
}

Operations& Operations::operator+=(const Operations& other) {
    products += other.products;
    products_again += other.products_again;
    attention += other.attention;
    attention_again += other.attention_again;
    return *this;
}

double Operations::of_training(double num_tokens, double squares) const {
    constexpr double passes = 3;  // a forward pass, and a backward pass of twice its work
    constexpr double seen = 0.5;  // of all pairs, by causal attention
    return passes * products * num_tokens + passes * seen * attention * squares;
}

std::vector<WeightShape> linear_layers(const ModelSpec& spec) {
    std::set<WeightShape> shapes{{spec.vocabulary, spec.width}};
    for (const Block& block : ModelParts(spec).blocks)
        for (const Projection* projection : block.projections()) shapes.insert(projection->shape());
    return {shapes.begin(), shapes.end()};
}

}  // namespace ringshard::model
