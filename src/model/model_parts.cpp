#include "model_parts.hpp"

#include <c10/util/accumulate.h>

#include <algorithm>

#include "ringshard/base/text.hpp"
#include "ringshard/model/model_tensors.hpp"

namespace ringshard::model {

using shard::InitialValues;

namespace {

// A parameter of one of several adapters in place of the model's, by variant_name()'s rule.
shard::ParameterGroup own_group(const ModelSpec& spec, size_t number, const std::string& module,
                                const char* kind, std::vector<int64_t> shape, shard::Stand stand) {
    const std::string& adapter = spec.adapters.at(number).name;
    const bool is_bias = shape.size() == 1;
    return {.tensors = {{is_bias ? format_text("{}.{}.{}", module, kind, adapter)
                                 : format_text("{}.{}.{}", module, adapter, kind),
                         std::move(shape)}},
            .is_made_by_run = true,
            .update = is_bias ? std::optional(shard::UpdateKind::at_own_rate) : std::nullopt,
            .variant = number,
            .stand = stand};
}

std::optional<shard::ParameterId> add_positions(shard::UnitLayout& unit, const ModelSpec& spec) {
    if (spec.names.positions.empty()) return std::nullopt;
    return unit.add(
        {.tensors = {{spec.names.positions + ".weight", {spec.max_positions, spec.width}}},
         .stand = shard::Stand::table});
}

}  // namespace

void ModelParts::add_heads(const ModelSpec& spec, shard::UnitLayout& unit) {
    const ParameterNames& names = spec.names;
    if (std::ranges::none_of(spec.adapters, [&](const NamedAdapter& adapter) {
            return adapter.layers.contains(names.head) || adapter.own.contains(names.head) ||
                   adapter.own.contains(names.final_norm);
        }))
        return;
    const ProjectionSpec projected{
        .layers = {{names.head, spec.head_rows()}}, .in = spec.width, .adapters = spec.adapters};
    for (size_t number = 0; number < spec.adapters.size(); ++number) {
        const auto& [name, layers, own] = spec.adapters[number];
        HeadParameters& mine = heads.emplace_back(head);
        if (own.contains(names.head))
            mine.projection =
                unit.add(own_group(spec, number, names.head, "weight",
                                   {spec.head_rows(), spec.width}, shard::Stand::output));
        if (own.contains(names.head) && spec.has_head_bias)
            mine.bias = unit.add(own_group(spec, number, names.head, "bias", {spec.head_rows()},
                                           shard::Stand::output));
        mine.adapter = LowRank::of(unit, projected, number);
        if (own.contains(names.final_norm))
            mine.norm.emplace(unit,
                              Norm::Spec{names.final_norm, spec.width, spec.norm, name, number});
    }
}

void ModelParts::add_tables(const ModelSpec& spec, shard::UnitLayout& unit) {
    const std::string& name = spec.names.embedding;
    for (size_t number = 0; number < spec.adapters.size(); ++number) {
        own_tables.emplace_back();
        if (spec.adapters[number].own.contains(name))
            own_tables.back() = unit.add(own_group(
                spec, number, name, "weight", {spec.vocabulary, spec.width}, shard::Stand::table));
    }
    positions = add_positions(unit, spec);
    for (const NamedAdapter& adapter : spec.adapters)
        if (const auto found = adapter.layers.find(name); found != adapter.layers.end())
            table_adapter.emplace(unit, name, spec.vocabulary, spec.width, found->second);
    if (!spec.trained_rows.embedding.empty())
        table_rows.emplace(unit, name, spec.trained_rows.embedding, spec.width);
}

void ModelParts::add_layer_embeddings(const ModelSpec& spec) {
    shard::UnitLayout layer_table("embeddings of layers");
    shard::UnitLayout layer_projection("projection to layers");
    layer_embeddings.emplace(spec, layer_table, layer_projection);
    modules.push_back(std::move(layer_table));
    modules.push_back(std::move(layer_projection));
}

void ModelParts::apply_choices(const ModelSpec& spec) {
    for (shard::UnitLayout& module : modules) {
        module.freeze(spec.frozen);
        module.set_rules(spec.update_rules);
    }
    for (size_t block = 0; block < blocks.size(); ++block)
        modules[ModuleIndex::block(block)].set_codec(spec.frozen_form);
    if (layer_embeddings) modules[ModuleIndex(spec).layer_projection].set_codec(spec.frozen_form);
}

ModelParts::ModelParts(const ModelSpec& spec, const Fusions& fusions) {
    shard::UnitLayout embedding(spec.tied ? "embedding and head" : "embedding");
    const auto matrix = [&](const std::string& name, int64_t rows) {
        return shard::ParameterGroup{{{name + ".weight", {rows, spec.width}}}};
    };
    shard::ParameterGroup of_table = matrix(spec.names.embedding, spec.vocabulary);
    of_table.stand = shard::Stand::table;
    of_table.is_overwritten = spec.tied;  // with the head's, before the rows of tokens
    table = embedding.add(std::move(of_table));
    add_tables(spec, embedding);
    const auto add_head = [&](shard::UnitLayout& unit, shard::ParameterId projection) {
        head.projection = projection;
        head.norm.emplace(unit, Norm::Spec{spec.names.final_norm, spec.width, spec.norm});
        if (spec.has_head_bias)
            head.bias =
                unit.add({{{spec.names.head + ".bias", {spec.head_rows()}}}, InitialValues::zeros});
        if (spec.trained_rows.head_has_those_of_embedding)
            head.rows = table_rows;
        else if (!spec.trained_rows.head.empty())
            head.rows.emplace(unit, spec.names.head, spec.trained_rows.head, spec.width);
        add_heads(spec, unit);
    };
    if (spec.tied) add_head(embedding, table);
    modules.push_back(std::move(embedding));

    blocks.reserve(spec.blocks.size());
    for (const BlockSpec& block : spec.blocks) {
        const size_t index = blocks.size();
        shard::UnitLayout& unit =
            modules.emplace_back(format_text("block {}", index), block_prefix(spec, index));
        blocks.emplace_back(unit, block, fusions);
    }
    if (!spec.tied) {
        shard::UnitLayout& unit = modules.emplace_back("head");
        shard::ParameterGroup projection = matrix(spec.names.head, spec.head_rows());
        projection.stand = shard::Stand::output;
        projection.is_overwritten = true;
        add_head(unit, unit.add(std::move(projection)));
    }
    if (spec.layer_embeddings) add_layer_embeddings(spec);
    apply_choices(spec);
}

namespace {

bool trains_some(const shard::UnitLayout& module) {
    return std::ranges::any_of(module.groups(), [](const shard::ParameterGroup& group) {
        return group.placement.is_trained;
    });
}

}  // namespace

bool trains_table(const ModelParts& parts) {
    const auto trains = [&](shard::ParameterId table) {
        return parts.modules.front().is_trained(table);
    };
    return parts.table_adapter || parts.table_rows || trains(parts.table) ||
           (parts.positions && trains(*parts.positions)) ||
           std::ranges::any_of(parts.own_tables, [](const std::optional<shard::ParameterId>& own) {
               return own.has_value();
           });
}

bool trains_layer_embeddings(const ModelParts& parts) {
    return parts.layer_embeddings &&
           std::any_of(parts.modules.end() - 2, parts.modules.end(), trains_some);
}

size_t first_backward_block(const ModelParts& parts) {
    if (trains_table(parts) || trains_layer_embeddings(parts)) return 0;
    size_t block = 0;
    while (block < parts.blocks.size() && !trains_some(parts.modules[ModuleIndex::block(block)]))
        ++block;
    return block;
}

namespace {

// A slice is no larger than the rest of the block, which a rank holds beside it; more slices than
// this save little memory, and their messages and products become small.
constexpr int64_t most_slices = 16;

int64_t slices_of(const BlockSpec& block, const shard::UnitLayout& unit) {
    const ExpertsSpec* const experts = block.experts();
    if (experts == nullptr || !block.feed_forward().norms.behind.empty()) return 1;
    int64_t of_experts = 0;
    int64_t of_others = 0;
    for (const shard::ParameterGroup& group : unit.groups())
        for (const shard::TensorSpec& tensor : group.tensors)
            (group.is_divided ? of_experts : of_others) += c10::multiply_integers(tensor.shape);
    const int64_t largest = std::max(of_others, of_experts / most_slices);
    const int64_t count = experts->count;
    int64_t slices = 1;
    while (slices < count && (of_experts / slices > largest || count % slices != 0)) ++slices;
    return slices;
}

}  // namespace

std::vector<shard::FlatUnit> make_units(const ModelSpec& spec, int64_t num_parts,
                                        int64_t ranks_of_experts, bool experts_in_slices,
                                        const shard::ChooseUpdate& choose_update) {
    std::vector<shard::FlatUnit> units;
    ModelParts parts(spec);
    if (choose_update)
        for (shard::UnitLayout& module : parts.modules) module.choose_updates(choose_update);
    std::vector<int64_t> slices(parts.modules.size(), 1);
    for (size_t block = 0; experts_in_slices && block < spec.blocks.size(); ++block)
        slices[ModuleIndex::block(block)] =
            slices_of(spec.blocks[block], parts.modules[ModuleIndex::block(block)]);
    for (size_t module = 0; module < parts.modules.size(); ++module)
        for (shard::FlatUnit& unit :
             parts.modules[module].finish(num_parts, module, ranks_of_experts, slices[module]))
            units.push_back(std::move(unit));
    return units;
}

int64_t most_slices_of_experts(const ModelSpec& spec) {
    const ModelParts parts(spec);
    int64_t most = 1;
    for (size_t block = 0; block < spec.blocks.size(); ++block)
        most =
            std::max(most, slices_of(spec.blocks[block], parts.modules[ModuleIndex::block(block)]));
    return most;
}

bool gathers_slices(const mesh::MeshShape& shape, const mesh::Cuts& cuts) {
    return cuts.weights && !cuts.keeps_weights_after_forward && shape.sections == 1;
}

std::vector<shard::FlatUnit> make_units(const ModelSpec& spec, const mesh::MeshShape& shape,
                                        const mesh::Cuts& cuts,
                                        const shard::ChooseUpdate& choose_update) {
    return make_units(spec, shape.zero(), shape.sections, gathers_slices(shape, cuts),
                      choose_update);
}

}  // namespace ringshard::model
