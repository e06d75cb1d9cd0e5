#include "ringshard/prove/small_model.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>

#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/base/mix.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/base/random_values.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/hub/weights.hpp"
#include "ringshard/model/spec_fields.hpp"
#include "ringshard/peft/adapters.hpp"

namespace ringshard::prove {

namespace {

// Multiples of 16, as products in FP8 need them, and of 32, so that the blocks of weights in four
// bits are full.
constexpr int64_t small_width = 64;  // or a multiple that the Ulysses ranks divide
constexpr int64_t small_intermediate = 96;
constexpr int64_t small_expert = 32;
constexpr int64_t small_embedding = 32;  // of a layer
constexpr int64_t small_vocabulary = 256;
constexpr int64_t small_window = 12;  // shorter than most documents
constexpr size_t most_trained_rows = 16;
constexpr int64_t least_positions = 16384;  // longer than all documents

std::string prefix_of(const model::ModelSpec& spec, size_t block) {
    return format_text("{}.{}.", spec.names.blocks, block);
}

// Returns the model with these blocks alone, in this order; the frozen tensors are named by their
// new numbers.
model::ModelSpec with_blocks(const model::ModelSpec& spec, const std::vector<size_t>& blocks) {
    model::ModelSpec chosen = spec;
    chosen.blocks.clear();
    std::erase_if(chosen.frozen, [&](const std::string& name) {
        return name.starts_with(spec.names.blocks + ".");
    });
    for (size_t number = 0; number < blocks.size(); ++number) {
        chosen.blocks.push_back(spec.blocks[blocks[number]]);
        const std::string before = prefix_of(spec, blocks[number]);
        for (auto name = spec.frozen.lower_bound(before);
             name != spec.frozen.end() && name->starts_with(before); ++name)
            chosen.frozen.insert(prefix_of(spec, number) + name->substr(before.size()));
    }
    return chosen;
}

// Describes what a block computes and trains; equal texts: blocks of one kind.
std::string kind_of(const model::ModelSpec& spec, size_t block) {
    const model::ModelSpec alone = with_blocks(spec, {block});
    std::vector<std::string> parts;
    for (const auto& [name, value] : model::spec_fields(alone)) parts.push_back(name + "=" + value);
    for (const shard::FlatUnit& unit : model::make_units(alone, 1)) {
        if (unit.module() != model::ModuleIndex::block(0)) continue;
        parts.push_back(unit.is_trained() ? "trained:" : "frozen:");
        for (const shard::PlacedTensor& tensor : unit.tensors()) {
            parts.push_back(tensor.spec.name);
            for (const int64_t size : tensor.spec.shape) parts.push_back(concat(size));
        }
    }
    for (const model::NamedAdapter& one : alone.blocks.front().adapters)
        for (const auto& [layer, adapter] : one.layers)
            parts.push_back(format_text("{} {} {}", layer, adapter.scaling, adapter.dropout));
    return join(parts, " ");
}

std::vector<size_t> one_of_each_kind(const model::ModelSpec& spec) {
    std::vector<size_t> chosen;
    std::set<std::string> kinds;
    for (size_t block = 0; block < spec.blocks.size(); ++block)
        if (kinds.insert(kind_of(spec, block)).second) chosen.push_back(block);
    if (chosen.size() == 1 && spec.blocks.size() > 1) chosen.push_back(spec.blocks.size() - 1);
    return chosen;
}

struct Heads {
    int64_t query_heads;
    int64_t key_heads;
};

// Returns the fewest heads that the ranks share as they share these.
Heads few_heads(int64_t query_heads, int64_t key_heads, int64_t ulysses) {
    const int64_t ratio = query_heads / key_heads;
    Heads fewest{query_heads, key_heads};
    for (int64_t keys = std::min<int64_t>(2, key_heads); keys <= key_heads; ++keys)
        for (int64_t each = std::min<int64_t>(2, ratio); each <= ratio; ++each) {
            if (key_heads % keys != 0 || ratio % each != 0) continue;
            if ((keys < ulysses) != (key_heads < ulysses)) continue;
            if (!attention::why_heads_do_not_split({keys * each, keys, 1}, ulysses).empty())
                continue;
            if (keys * each < fewest.query_heads) fewest = {keys * each, keys};
        }
    return fewest;
}

// What a part is made small for.
struct Small {
    int64_t width;
    int64_t ulysses;
};

template <class Attends>
requires requires(Attends& attends) {
    attends.heads;
    attends.mask;
}
void make_part_small(Attends& attends, const Small& small) {
    const Heads heads =
        few_heads(attends.heads.query_heads, attends.heads.key_heads, small.ulysses);
    attends.heads.query_heads = heads.query_heads;
    attends.heads.key_heads = heads.key_heads;
    if (attends.mask.window) attends.mask.window = std::min(*attends.mask.window, small_window);
}

void take_few_heads(attention::DeltaSizes& sizes, const Small& small) {
    const Heads heads = few_heads(sizes.value_heads, sizes.key_heads, small.ulysses);
    sizes.value_heads = heads.query_heads;
    sizes.key_heads = heads.key_heads;
}

void make_part_small(model::DeltaNetSpec& net, const Small& small) {
    take_few_heads(net.sizes, small);
}

void make_part_small(model::DeltaByRowSpec& net, const Small& small) {
    take_few_heads(net.sizes, small);
}

// Norms take groups of columns: one, or as many as there are heads of keys.
void make_part_small(model::MambaSpec& mamba, const Small& small) {
    const bool has_one_group = mamba.norm_groups == 1;
    take_few_heads(mamba.sizes, small);
    if (!has_one_group) mamba.norm_groups = mamba.sizes.key_heads;
}

// Its heads are the columns of the rows.
void make_part_small(model::ShortConvSpec& conv, const Small& small) {
    conv.sizes.key_heads = conv.sizes.value_heads = small.width;
}

void make_part_small(model::MlpSpec& mlp, const Small& /*small*/) {
    mlp.intermediate = std::min(mlp.intermediate, small_intermediate);
}

void make_part_small(model::ExpertsSpec& experts, const Small& small) {
    experts.intermediate = std::min(experts.intermediate, small_expert);
    if (experts.shared) make_part_small(*experts.shared, small);
    if (experts.beside) make_part_small(experts.beside->mlp, small);
}

void make_part_small(model::LayerEmbeddingSpec& embedding, const Small& /*small*/) {
    embedding.width = std::min(embedding.width, small_embedding);
}

// Returns ids within the small vocabulary, one for each of the first of these.
std::vector<int64_t> few_rows(const std::vector<int64_t>& rows) {
    std::vector<int64_t> few;
    for (size_t i = 0; i < std::min(rows.size(), most_trained_rows); ++i)
        few.push_back(static_cast<int64_t>(3 + 7 * i));
    return few;
}

void make_ends_small(model::ModelSpec& spec, int64_t width) {
    spec.width = width;
    spec.vocabulary = spec.stored_vocabulary = std::min(spec.vocabulary, small_vocabulary);
    if (spec.padding_token) spec.padding_token = std::min(*spec.padding_token, spec.vocabulary - 1);
    spec.trained_rows.embedding = few_rows(spec.trained_rows.embedding);
    spec.trained_rows.head = few_rows(spec.trained_rows.head);
    if (!spec.names.positions.empty())
        spec.max_positions = std::max(spec.max_positions, least_positions);
    if (spec.layer_embeddings)
        spec.layer_embeddings->width = std::min(spec.layer_embeddings->width, small_embedding);
    spec.constants.clear();
}

}  // namespace

SmallModel make_small(const model::ModelSpec& spec, int64_t ulysses) {
    SmallModel small{.spec = {},
                     .blocks = one_of_each_kind(spec),
                     .blocks_of_model = narrow<int64_t>(spec.blocks.size())};
    small.spec = with_blocks(spec, small.blocks);
    const Small sizes{std::lcm(small_width, ulysses), ulysses};
    make_ends_small(small.spec, sizes.width);
    for (model::BlockSpec& block : small.spec.blocks) {
        block.width = sizes.width;
        const auto shrink = [&](auto& part) { make_part_small(part, sizes); };
        for (auto& layer : block.mixers) std::visit(shrink, layer.part);
        if (block.last) std::visit(shrink, block.last->part);
        if (block.embedding) shrink(block.embedding->part);
    }
    return small;
}

namespace {

double middle_of(shard::InitialValues initial) {
    switch (initial) {
        case shard::InitialValues::ones: return 1;
        case shard::InitialValues::log_uniform: return std::log(4.0);
        case shard::InitialValues::log_of_places: return std::log(2.0);
        case shard::InitialValues::softplus_0_8: return std::log(std::expm1(0.8));
        case shard::InitialValues::softplus_0_3: return std::log(std::expm1(0.3));
        case shard::InitialValues::softplus_of_steps: return std::log(std::expm1(0.01));
        case shard::InitialValues::normal:
        case shard::InitialValues::zeros: break;
    }
    return 0;
}

struct Spread {
    double middle;
    double deviation;
};

// Returns the largest factor of an adapter, at least 1.
double largest_scaling(const model::ModelSpec& spec) {
    double largest = 1;
    for (size_t learner = 0; learner < spec.adapters.size(); ++learner)
        for (const auto& [layer, adapter] : spec.layers_of(learner))
            largest = std::max(largest, adapter.scaling);
    return largest;
}

// Products keep the size of rows; vectors lie round the values with which training begins. Adapters
// with their factor add half of that size: scores of queries and keys that are several times as
// large make of attention a choice of one token, which turns with the last bit.
Spread spread_of(const shard::PlacedTensor& tensor, double scaling) {
    constexpr double of_vectors = 0.1;
    const std::vector<int64_t>& shape = tensor.spec.shape;
    if (shape.size() < 2) return {middle_of(tensor.initial), of_vectors};
    const double of_products = std::min(0.5, 1 / std::sqrt(double(shape.back())));
    const bool is_second = tensor.spec.name.find(".lora_B.") != std::string::npos;
    return {middle_of(tensor.initial), is_second ? of_products / (2 * scaling) : of_products};
}

// Norms of heads whose scores have no factor learn to keep these small, and so they begin here: as
// the factor 1 / sqrt(head_dim) has them.
void keep_scores_small(const model::ModelSpec& spec, std::map<std::string, Spread>& spreads) {
    for (size_t block = 0; block < spec.blocks.size(); ++block)
        for (const auto& mixer : spec.blocks[block].mixers) {
            const auto* const attention = std::get_if<model::AttentionSpec>(&mixer.part);
            if (attention == nullptr || attention->head_norm != model::HeadNormKind::each_head)
                continue;
            const double usual = 1 / std::sqrt(static_cast<double>(attention->heads.head_dim));
            const double factor = std::sqrt(std::min(1.0, usual / attention->scores.scale));
            for (const std::string& norm : {attention->query_norm, attention->key_norm})
                if (const auto found = spreads.find(prefix_of(spec, block) + norm + ".weight");
                    found != spreads.end())
                    found->second.middle += factor - 1;
        }
}

shard::ReadWeight random_reader(const model::ModelSpec& spec, uint64_t seed) {
    const auto spreads = std::make_shared<std::map<std::string, Spread>>();
    const double scaling = largest_scaling(spec);
    for (const shard::FlatUnit& unit : model::make_units(spec, 1))
        for (const shard::PlacedTensor& tensor : unit.tensors())
            spreads->emplace(tensor.spec.name, spread_of(tensor, scaling));
    keep_scores_small(spec, *spreads);
    return [spreads, seed](const std::string& tensor, int64_t first,
                           std::span<float> into) -> std::optional<Failure> {
        const Spread& spread = spreads->at(tensor);
        fill_normal(mix_bits(seed) ^ hash_text(tensor), first, spread.deviation, into);
        for (float& number : into) number += static_cast<float>(spread.middle);
        return std::nullopt;
    };
}

}  // namespace

void fill_at_random(const model::ModelSpec& spec, uint64_t seed, shard::Zero& zero) {
    const shard::ReadWeight read = random_reader(spec, seed);
    shard::TensorSums none({});
    hub::CodeScales scales;
    if (const auto failure = hub::load_weights(read, spec, zero, zero.all_weights(), none))
        throw Error(*failure);
    if (const auto failure = hub::load_coded_weights(read, zero, scales, none))
        throw Error(*failure);
    hub::write_scales(scales, zero);
    zero.refresh_compute_weights();
    peft::set_magnitudes(spec, zero);
    zero.refresh_compute_weights();
    zero.clear_gradients();
}

}  // namespace ringshard::prove
