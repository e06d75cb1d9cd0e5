#include "block.hpp"

#include "parts/attention.hpp"
#include "parts/delta_by_row.hpp"
#include "parts/delta_net.hpp"
#include "parts/experts.hpp"
#include "parts/latent_attention.hpp"
#include "parts/layer_embedding.hpp"
#include "parts/mamba.hpp"
#include "parts/mlp.hpp"
#include "parts/short_conv.hpp"

namespace ringshard::model {

using config::ActivationPolicy;
using shard::UnitTensors;

namespace {

struct PartMaker {
    shard::UnitLayout& unit;
    SavedLayout& slots;
    const BlockSpec& block;
    SavedSlot stream;  // that a feed-forward reads

    std::unique_ptr<const Mixer> operator()(const AttentionSpec& spec) const {
        return make<Attention>(spec);
    }
    std::unique_ptr<const Mixer> operator()(const LatentSpec& spec) const {
        return make<LatentAttention>(spec);
    }
    std::unique_ptr<const Mixer> operator()(const DeltaNetSpec& spec) const {
        return make<DeltaNet>(spec);
    }
    std::unique_ptr<const Mixer> operator()(const DeltaByRowSpec& spec) const {
        return make<DeltaByRow>(spec);
    }
    std::unique_ptr<const Mixer> operator()(const MambaSpec& spec) const {
        return make<Mamba>(spec);
    }
    std::unique_ptr<const Mixer> operator()(const ShortConvSpec& spec) const {
        return make<ShortConv>(spec);
    }
    std::unique_ptr<const FeedForward> operator()(const MlpSpec& spec) const {
        return std::make_unique<const Mlp>(unit, slots, block, spec,
                                           slots.add(ActivationPolicy::everything));
    }
    std::unique_ptr<const FeedForward> operator()(const ExpertsSpec& spec) const {
        return std::make_unique<const Experts>(unit, slots, block, spec, stream);
    }

    std::unique_ptr<const FeedForward> operator()(const LayerEmbeddingSpec& spec) const {
        return make<LayerEmbedding>(spec);
    }

    template <class Part>
    std::unique_ptr<const Part> make(const auto& spec) const {
        return std::make_unique<const Part>(unit, slots, block, spec);
    }
};

std::shared_ptr<const Norm> norm_if_named(shard::UnitLayout& unit, const BlockSpec& block,
                                          const std::string& name) {
    if (name.empty()) return nullptr;
    return std::make_shared<const Norm>(unit, Norm::Spec{name, block.width, block.norm});
}

std::optional<MlpBeside> mlp_beside(shard::UnitLayout& unit, SavedLayout& slots,
                                    const BlockSpec& block) {
    const ExpertsSpec* const experts = block.experts();
    if (experts == nullptr || !experts->beside) return std::nullopt;
    const auto& [mlp, norms, behind_experts] = *experts->beside;
    return MlpBeside{norm_if_named(unit, block, norms.before),
                     std::make_shared<const Mlp>(unit, slots, block, mlp, slots.add_passing()),
                     norm_if_named(unit, block, norms.behind),
                     norm_if_named(unit, block, behind_experts)};
}

}  // namespace

Block::Block(shard::UnitLayout& unit, const BlockSpec& spec, const Fusions& fusions)
    : input_(slots_.add(ActivationPolicy::input)) {
    std::vector<Around> around;
    const auto add_around = [&](const auto& layer) {
        auto before = norm_if_named(unit, spec, layer.norms.before);
        if (!before && layer.is_parallel) before = around.back().before;
        around.push_back({std::move(before), norm_if_named(unit, spec, layer.norms.behind),
                          layer.is_parallel, spec.residual_multiplier * layer.factor});
    };
    for (const auto& mixer : spec.mixers) add_around(mixer);
    if (spec.last) add_around(*spec.last);
    if (spec.last) around.back().beside = mlp_beside(unit, slots_, spec);
    if (spec.embedding) add_around(*spec.embedding);
    PartMaker maker{unit, slots_, spec, input_};
    for (const auto& mixer : spec.mixers)
        add_layer(std::visit(maker, mixer.part), around, spec.width, fusions);
    if (!layers_.empty()) maker.stream = layers_.back().result;
    if (spec.last) add_layer(std::visit(maker, spec.last->part), around, spec.width, fusions);
    if (spec.embedding) add_layer(maker(spec.embedding->part), around, spec.width, fusions);
    if (!spec.stream_factor.empty())
        stream_factor_ = unit.add({.tensors = {{spec.stream_factor, {1}}},
                                   .initial = shard::InitialValues::ones,
                                   .placement = {.is_trained = false},
                                   .update = shard::UpdateKind::at_own_rate});
}

std::unique_ptr<const LayerInput> Block::make_input(std::shared_ptr<const Norm> norm,
                                                    const Part& part, const SavedSlot& source,
                                                    ActivationPolicy keeps) {
    if (!norm) return std::make_unique<const StreamRows>(source);
    const Projection* const product = part.first_product();
    std::unique_ptr<const NormedRows> normed;
    if (norm->can_make_rows() && product != nullptr && product->splits_backward())
        normed = std::make_unique<const RowsMadeByBackward>(std::move(norm), slots_, source, keeps);
    else
        normed = std::make_unique<const NormedRows>(std::move(norm), slots_, source, keeps);
    if (layers_.empty() || !layers_.back().unadded) return normed;
    return std::make_unique<const SumNormed>(std::move(normed), *layers_.back().unadded,
                                             layers_.back().stream, layers_.back().factor);
}

std::unique_ptr<const Output> Block::make_output(const Around& around, const Part& part,
                                                 const SavedSlot& source, ActivationPolicy keeps) {
    if (around.beside)
        return std::make_unique<const OutputBesideMlp>(part, *around.beside, around.behind, slots_,
                                                       source, keeps);
    if (around.behind)
        return std::make_unique<const NormedOutput>(part, around.behind, slots_, keeps);
    return std::make_unique<const Output>(part);
}

template <class PartOfLayer>
void Block::add_layer(std::unique_ptr<const PartOfLayer> part, const std::vector<Around>& all,
                      int64_t width, const Fusions& fusions) {
    constexpr bool is_mixer = std::is_same_v<PartOfLayer, Mixer>;
    constexpr ActivationPolicy keeps =
        is_mixer ? ActivationPolicy::all_but_gate_up : ActivationPolicy::all;
    const size_t number = layers_.size();
    const Around& around = all[number];
    const Around* const next = number + 1 == all.size() ? nullptr : &all[number + 1];

    Placed placed{};
    placed.is_parallel = around.is_parallel;
    placed.factor = around.factor;
    placed.stream = number == 0 ? input_ : layers_.back().result;
    placed.source = around.is_parallel ? layers_.back().source : placed.stream;
    auto input = make_input(around.before, *part, placed.source, keeps);
    auto output = make_output(around, *part, placed.source, keeps);
    // A feed-forward, which makes its rows again chunk by chunk, would do that twice.
    constexpr ActivationPolicy keeps_result =
        is_mixer ? ActivationPolicy::all_but_gate_up : ActivationPolicy::input;
    placed.result = next ? slots_.add(keeps_result) : slots_.add_passing();

    const bool product_adds = fusions.products_add && around.factor == 1 && !around.behind &&
                              part->last_product() != nullptr;
    const bool next_norm_adds = !product_adds && next && fusions.has_one_type &&
                                !next->is_parallel && next->before && next->before->can_add();
    std::unique_ptr<const Addition> addition;
    if (product_adds) {
        addition = std::make_unique<const AdditionByProduct>(std::move(output), placed.stream);
    } else if (next_norm_adds) {
        placed.unadded = slots_.add_passing();
        addition = std::make_unique<const AdditionByNextNorm>(std::move(output), *placed.unadded,
                                                              around.factor);
    } else {
        addition = std::make_unique<const AdditionOfRows>(std::move(output), placed.stream,
                                                          around.factor, width);
    }
    if constexpr (is_mixer)
        placed.layer = std::make_unique<const MixerLayer>(std::move(part), std::move(input),
                                                          std::move(addition), width);
    else
        placed.layer = std::make_unique<const FeedForwardLayer>(std::move(part), std::move(input),
                                                                std::move(addition), placed.stream);
    layers_.push_back(std::move(placed));
}

Saved Block::begin(const at::Tensor& input) const {
    Saved saved = slots_.make();
    saved[input_] = input;
    return saved;
}

at::Tensor Block::forward(const BlockContext& context, const UnitTensors& weights,
                          Saved& saved) const {
    const Pass pass{context, weights, saved};
    for (const Placed& one : layers_) saved[one.result] = one.layer->forward(pass);
    at::Tensor output = saved[layers_.back().result];
    if (stream_factor_) output.mul_(weights[*stream_factor_]);
    slots_.drop(saved, context.policy);
    return output;
}

void Block::backward(const BlockContext& context, const UnitTensors& weights,
                     const UnitTensors& gradients, const at::Tensor& gradient, Saved saved) const {
    BackwardPass pass{{context, weights, saved}, gradients, gradient, gradient};
    if (stream_factor_) gradient.mul_(weights[*stream_factor_]);
    for (size_t i = 0; is_read(i); ++i)
        if (const Placed& one = layers_[i]; !saved.has(one.result))
            saved[one.result] = one.layer->forward(pass);
    for (size_t i = layers_.size(); i-- > 0;) {
        // The gradient of the result of layers side by side, of which each adds to that of their
        // source.
        const bool ends_group = !is_read(i) || !layers_[i + 1].is_parallel;
        if (ends_group) pass.d_result = layers_[i].is_parallel ? gradient.clone() : gradient;
        layers_[i].layer->backward(pass);
        if (i > 0) saved.drop_from(layers_[i].stream);
    }
}

StageCosts Block::costs(ActivationPolicy policy) const {
    StageCosts costs{policy};
    for (size_t i = 0; i < layers_.size(); ++i)
        layers_[i].layer->add_costs(costs, is_read(i) && !layers_[i].result.is_kept(policy));
    return costs;
}

std::vector<const Projection*> Block::projections() const {
    std::vector<const Projection*> all;
    for (const Placed& one : layers_)
        for (const Projection* projection : one.layer->projections()) all.push_back(projection);
    return all;
}

std::vector<WeightUse> Block::weights() const {
    std::vector<WeightUse> all;
    for (const Projection* projection : projections())
        all.push_back({projection->shape(), projection->weight()});
    for (const Placed& one : layers_)
        for (const WeightUse& use : one.layer->part().other_weights()) all.push_back(use);
    return all;
}

std::vector<const Mixer*> Block::mixers() const {
    std::vector<const Mixer*> all;
    for (const Placed& one : layers_)
        if (one.layer->mixer() != nullptr) all.push_back(one.layer->mixer());
    return all;
}

}  // namespace ringshard::model
