#include "ringshard/model/transformer.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "activation_store.hpp"
#include "model_parts.hpp"
#include "pairs.hpp"
#include "positions.hpp"
#include "recorded_blocks.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/config/parallel_settings.hpp"
#include "ringshard/config/training_settings.hpp"
#include "ringshard/ops/device_copies.hpp"
#include "ringshard/ops/linear.hpp"
#include "ringshard/ops/routing.hpp"
#include "router_sums.hpp"
#include "unit_set.hpp"

namespace ringshard::model {

using NextUse = shard::Zero::NextUse;

attention::ContextParallelOptions context_parallel_options(
    const config::ParallelSettings& parallel) {
    using Keys = attention::ContextParallelOptions::Keys;
    const bool gathers = parallel.cp_comm_strategy == config::RingStrategy::allgather;
    attention::ContextParallelOptions context_parallel{.keys = gathers ? Keys::all_gather
                                                                       : Keys::rotate};
    // fp32 is never sent in less, and bf16 is the type of the computation anyway.
    if (parallel.seq_parallel_communication_data_type == config::NumberType::fp32)
        context_parallel.heads = at::kFloat;
    return context_parallel;
}

std::optional<at::ScalarType> residual_type(const config::TrainingSettings& training) {
    return training.widens_residual() ? std::optional(at::kFloat) : std::nullopt;
}

namespace {

double multiplier_of(const ModelSpec& spec, at::ScalarType type) {
    if (!spec.rounds_embedding_multiplier) return spec.embedding_multiplier;
    return at::scalar_tensor(spec.embedding_multiplier, at::TensorOptions(type)).item().toDouble();
}

// Over a ring, other ranks make keys and values of a token's latent too: with the same factors, but
// they do not know which tokens dropout or an adapter of several takes.
void check_latents(const ModelSpec& spec, const mesh::Mesh& mesh) {
    if (mesh.ring().size() == 1) return;
    const auto refuse = [&](const char* setting, const std::string& layer, const char* cure) {
        throw Error(
            Failure{ExitCode::settings,
                    format_text("{}: an adapter of {} ({}) over a ring: {}, or take sp_size "
                                "in place of cp_size",
                                setting, layer, spec.architecture, cure)});
    };
    for (const BlockSpec& block : spec.blocks)
        for (const LayerSpec<MixerSpec>& mixer : block.mixers) {
            const auto* const latent = std::get_if<LatentSpec>(&mixer.part);
            if (latent == nullptr) continue;
            const std::string layer = latent->module + ".kv_b_proj";
            for (const NamedAdapter& adapter : block.adapters) {
                const auto found = adapter.layers.find(layer);
                if (found == adapter.layers.end()) continue;
                if (!adapter.name.empty())
                    refuse("adapters", layer, "leave this layer out of lora_target_modules");
                if (found->second.dropout > 0) refuse("lora_dropout", layer, "set it to 0");
            }
        }
}

// The type of the residual stream, and the device, decide what neighbouring stages become.
Fusions fusions_of(const shard::Zero& zero, const mesh::Mesh& mesh, at::ScalarType residual) {
    return {.products_add = ops::products_add(at::empty({0}, at::TensorOptions(mesh.device()))),
            .has_one_type = residual == zero.compute_type()};
}

std::unique_ptr<const ops::Gemms> open_gemms(c10::DeviceType device) {
    return std::make_unique<ops::Gemms>(
        device == c10::DeviceType::CUDA ? ops::Gemms() : ops::Gemms::open().value());
}

}  // namespace

Transformer::Transformer(ModelSpec spec, shard::Zero& zero, const mesh::Mesh& mesh,
                         const Options& options)
    : spec_(std::move(spec)),
      masks_(spec_.masks()),
      parts_(std::make_unique<const ModelParts>(
          spec_, fusions_of(zero, mesh, options.residual.value_or(zero.compute_type())))),
      operations_(operations_of(spec_, options.policies)),
      index_(spec_),
      zero_(zero),
      units_(units_by_module(zero, parts_->modules.size())),
      trains_table_(trains_table(*parts_)),
      layers_have_backward_(parts_->layer_embeddings &&
                            (trains_table_ || trains_layer_embeddings(*parts_))),
      trained_of_table_(parts_->table_adapter
                            ? std::make_unique<const UnitSet>(trained_units(zero, index_.embedding))
                            : nullptr),
      has_dropout_(options.noise > 0 || spec_.any_adapter([](const AdapterSpec& adapter) {
          return adapter.dropout > 0;
      })),
      noise_(options.noise),
      positions_(std::make_unique<const PositionTables>(spec_, mesh.device())),
      residual_type_(options.residual.value_or(zero.compute_type())),
      branch_type_(residual_type_ == zero.compute_type() ? std::nullopt
                                                         : std::optional(zero.compute_type())),
      embedding_multiplier_(multiplier_of(spec_, residual_type_)),
      first_backward_block_(model::first_backward_block(*parts_)),
      mesh_(mesh),
      context_parallel_(options.context_parallel),
      device_(options.planned_device.value_or(mesh.device().type())),
      own_gemms_(options.gemms == nullptr ? open_gemms(device_) : nullptr),
      gemms_(own_gemms_ ? *own_gemms_ : *options.gemms),
      policies_(options.policies.of_blocks(narrow<int64_t>(num_blocks()))),
      objective_(options.objective ? options.objective : cross_entropy_objective({})),
      fp8_(options.fp8),
      delayed_scaling_(options.delayed_scaling),
      chunks_(options.chunks.value_or(
          chunks_of(spec_, zero.compute_type(), device_, options.device_memory))),
      activations_(options.activations != nullptr
                       ? keep_activations_offloaded(num_blocks(), *options.activations)
                       : keep_activations_in_memory(num_blocks())),
      on_phase_(options.on_phase),
      routers_(std::make_unique<RouterSums>(spec_, mesh.world(), mesh.device())),
      experts_(mesh.shape().sections > 1 ? &mesh.sections() : nullptr) {
    check_latents(spec_, mesh);
    if (options.recorder != nullptr) {
        RINGSHARD_CHECK(spec_.num_experts() == 0, "the host reads how many rows each expert has");
        RINGSHARD_CHECK(!spec_.blocks_share_rows(), "each batch has shared rows of its own");
        RINGSHARD_CHECK(options.activations == nullptr, "recordings keep activations in memory");
        const auto context_of_shape = [this](size_t block, const TokenBatch& batch,
                                             const Positions& positions) {
            return context_of(block, Pass{batch, positions, true}, NextUse::none);
        };
        recorded_ = std::make_unique<RecordedBlocks>(parts_->blocks, context_of_shape,
                                                     delayed_scaling_, *options.recorder);
    }
}

Transformer::~Transformer() = default;

template <class... Values>
void Transformer::report_phase(TextPattern<sizeof...(Values)> pattern,
                               const Values&... values) const {
    if (on_phase_) on_phase_(format_text(pattern, values...));
}

shard::UnitTensors Transformer::weights_of(size_t module) const {
    return units_[module].own.weights();
}

void Transformer::release(size_t module, NextUse next_use) const {
    units_[module].own.release(next_use);
}

shard::UnitTensors Transformer::gradients_of(size_t module) const {
    return units_[module].own.gradients();
}

void Transformer::reduce(size_t module) const { units_[module].own.reduce(); }

BlockContext Transformer::context_of(size_t block, const Pass& pass, NextUse next_use) const {
    BlockContext context{
        .sequence = {mesh_.ring(), mesh_.ulysses(), context_parallel_, device_},
        .masks = masks_,
        .plans = pass.batch.plans,
        .positions = pass.positions,
        .projections = {.gemms = gemms_,
                        .dropout_keys = pass.has_backward
                                            ? pass.batch.dropout_keys.value_or(at::Tensor())
                                            : at::Tensor(),
                        .rows = {pass.batch.learner_bounds},
                        .fp8 = fp8_of(block, pass)},
        .policy = policies_[block],
        .mlp_chunk = chunks_.mlp,
        .cache = pass.caches.empty() ? nullptr : &pass.caches[block],
        .routers = pass.routers == nullptr ? RouterContext{} : pass.routers->of_block(block),
        .experts = {experts_, pass.longest_of_experts, chunks_.rows_of_expert},
        .slices = {units_[ModuleIndex::block(block)].slices, next_use},
        .branch_type = branch_type_,
        .shared = pass.shared.get()};
    if (pass.shared && pass.shared->of_layers)
        context.layer_rows =
            pass.shared->of_layers->of_block(block, spec_.layer_embeddings.value().width);
    return context;
}

// Fillers of a layout have no part in a maximum, and evaluations record nothing.
std::optional<Fp8Context> Transformer::fp8_of(size_t block, const Pass& pass) const {
    if (!fp8_) return std::nullopt;
    const int64_t counted = pass.has_backward ? pass.batch.num_counted() : 0;
    return Fp8Context{*fp8_, delayed_scaling_, block, counted};
}

int64_t Transformer::longest_of_experts(const TokenBatch& batch) const {
    if (experts_ == nullptr) return 0;
    const int64_t here = batch.tokens.size(0);
    const at::TensorOptions options(batch.tokens.device());
    const at::Tensor all = at::empty({experts_->size(), 1}, options.dtype(at::kLong));
    experts_->all_gather(all, at::full({1}, here, all.options())).wait();
    const std::vector<int64_t> lengths = ops::counts_on_host(all, {here});
    return *std::ranges::max_element(lengths);
}

std::set<std::string> Transformer::attention_operators(const TokenBatch& batch) const {
    const Positions
        nothing_rotates;  // no operator depends on positions, whose tables take a kernel
    const Pass pass{batch, nothing_rotates, false};
    std::set<std::string> operators;
    for (size_t block = 0; block < num_blocks(); ++block)
        for (const Mixer* const mixer : parts_->blocks[block].mixers())
            operators.merge(mixer->operators(context_of(block, pass, NextUse::none),
                                             zero_.compute_type(), zero_.device()));
    return operators;
}

std::vector<size_t> Transformer::order_of_units(bool with_backward) const {
    std::vector<size_t> order;
    const auto add_set = [&](const UnitSet& set) {
        order.insert(order.end(), set.units().begin(), set.units().end());
    };
    const auto add = [&](size_t module) {
        add_set(units_[module].own);
        for (const UnitSet& slice : units_[module].slices) add_set(slice);
    };
    add(index_.embedding);
    if (spec_.layer_embeddings) add(index_.layer_table);
    if (spec_.layer_embeddings) add(index_.layer_projection);
    for (size_t block = 0; block < num_blocks(); ++block) add(ModuleIndex::block(block));
    add(index_.head);
    if (with_backward)
        for (size_t block = num_blocks(); block-- > first_backward_block_;)
            add(ModuleIndex::block(block));
    if (with_backward && layers_have_backward_) add(index_.layer_projection);
    if (with_backward && trained_of_table_) add_set(*trained_of_table_);
    return order;
}

template <class Work>
at::Tensor Transformer::for_heads(const TokenBatch& batch, Work work) const {
    const HeadTargets targets(batch);
    if (parts_->heads.size() <= 1 || batch.target_bounds.empty())
        return work(head_of(batch), targets);
    std::vector<at::Tensor> token_stats;
    for (size_t adapter = 0; adapter < parts_->heads.size(); ++adapter) {
        const int64_t begin = batch.target_bounds.at(adapter);
        const int64_t length = batch.target_bounds.at(adapter + 1) - begin;
        token_stats.push_back(work(parts_->heads[adapter], targets.of_range(begin, length)));
    }
    return at::cat(token_stats);
}

at::Tensor Transformer::forward(const Pass& pass) const {
    const auto& [batch, positions, has_backward, recorded, caches, routers, longest, shared] = pass;
    const NextUse next_use = has_backward ? NextUse::backward : NextUse::none;
    const bool is_tied = index_.head == index_.embedding;
    zero_.begin_pass(order_of_units(has_backward));

    report_phase("embedding");
    at::Tensor x = embed(batch);
    // transformers' noise is of the embedding's module, which multiplies in some models.
    const bool has_noise = noise_ > 0 && has_backward;
    if (has_noise && !spec_.rounds_embedding_multiplier) add_noise(batch, x);
    if (embedding_multiplier_ != 1) x.mul_(embedding_multiplier_);
    if (has_noise && spec_.rounds_embedding_multiplier) add_noise(batch, x);
    // A tied table is the head's too.
    release(index_.embedding, is_tied ? next_use : NextUse::none);
    if (parts_->layer_embeddings) embed_layers(pass, x);

    for (size_t block = 0; block < num_blocks(); ++block) {
        report_phase("forward of block {}", block);
        const size_t module = ModuleIndex::block(block);
        const bool comes_again = has_backward && block >= first_backward_block_;
        const NextUse of_block = comes_again ? NextUse::backward : NextUse::none;
        const shard::UnitTensors weights = weights_of(module);
        Saved saved = parts_->blocks[block].begin(x);
        x = recorded != nullptr
                ? recorded->forward(block, weights, saved)
                : parts_->blocks[block].forward(context_of(block, pass, of_block), weights, saved);
        release(module, of_block);
        if (comes_again) activations_->store(block, std::move(saved));
    }
    return x;
}

void Transformer::backward(const Pass& pass, at::Tensor gradient) const {
    const auto& [batch, positions, has_backward, recorded, caches, routers, longest, shared] = pass;
    if (layers_have_backward_)
        shared->of_layers->gradient = at::empty_like(shared->of_layers->rows);
    for (size_t block = num_blocks(); block-- > first_backward_block_;) {
        report_phase("backward of block {}", block);
        const size_t module = ModuleIndex::block(block);
        const shard::UnitTensors weights = weights_of(module);
        const shard::UnitTensors gradients = gradients_of(module);
        Saved saved = activations_->load(block);
        if (block > first_backward_block_) activations_->prefetch(block - 1);
        if (recorded != nullptr)
            gradient = recorded->backward(block, weights, gradients, gradient, std::move(saved));
        else
            parts_->blocks[block].backward(context_of(block, pass, NextUse::none), weights,
                                           gradients, gradient, std::move(saved));
        release(module, NextUse::none);
        reduce(module);
    }
    if (layers_have_backward_) embed_layers_backward(pass, gradient);
    if (trains_table_) {
        report_phase("backward of the embedding");
        if (embedding_multiplier_ != 1) gradient.mul_(embedding_multiplier_);
        embed_backward(batch, gradient);
    }
    // A tied head's gradient goes with the embedding's.
    if (trains_table_ || index_.head == index_.embedding) reduce(index_.embedding);
    report_phase("after the pass");
}

at::Tensor Transformer::forward_backward(const TokenBatch& batch, double gradient_scale,
                                         double share) const {
    const Positions positions = positions_->of(batch);
    const bool replays =
        recorded_ && !batch.dropout_keys && recorded_->try_begin_replay(batch, positions);
    const Pass pass{batch,
                    positions,
                    true,
                    replays ? recorded_.get() : nullptr,
                    {},
                    routers_.get(),
                    longest_of_experts(batch),
                    make_shared_rows()};
    routers_->begin_pass(batch.num_counted());
    at::Tensor x = forward(pass);
    routers_->balance(share);

    report_phase("loss");
    const shard::UnitTensors weights = weights_of(index_.head);
    const shard::UnitTensors gradients = gradients_of(index_.head);
    at::Tensor d_x = at::zeros_like(x);
    const auto learn = [&](const TokenBatch& targets) {
        return for_heads(targets, [&](const HeadParameters& head, const HeadTargets& part) {
            return head_forward_backward(spec_, HeadViews(weights, head), {gradients, head}, x,
                                         part, {gemms_, gradient_scale, *objective_, chunks_.head},
                                         d_x);
        });
    };
    at::Tensor token_stats;
    if (batch.pairs) {
        WeighedPairs weighed =
            weigh_pairs(*objective_, *batch.pairs, read_targets(batch, weights, x), mesh_);
        TokenBatch targets = batch;
        targets.weights = std::move(weighed.weights);
        learn(targets);
        token_stats = std::move(weighed.token_stats);
    } else {
        token_stats = learn(batch);
    }
    x.reset();  // no other part needs it
    release(index_.head, NextUse::none);
    if (index_.head != index_.embedding)
        reduce(index_.head);  // a tied head's gradient goes with the embedding's

    backward(pass, std::move(d_x));
    return token_stats;
}

RouterLoad Transformer::take_router_load() const { return routers_->take(); }

Replays Transformer::replays() const { return recorded_ ? recorded_->replays() : Replays{}; }

Transformer::Pass Transformer::reading(const TokenBatch& batch, const Positions& positions,
                                       std::span<const LayerCache> caches) const {
    return {.batch = batch,
            .positions = positions,
            .has_backward = false,
            .caches = caches,
            .longest_of_experts = longest_of_experts(batch),
            .shared = make_shared_rows()};
}

std::unique_ptr<SharedRows> Transformer::make_shared_rows() const {
    return spec_.blocks_share_rows() ? std::make_unique<SharedRows>() : nullptr;
}

at::Tensor Transformer::evaluate(const TokenBatch& batch) const {
    const Positions positions = positions_->of(batch);
    const at::Tensor x = forward(reading(batch, positions));
    at::Tensor token_stats = read_targets(batch, weights_of(index_.head), x);
    release(index_.head, NextUse::none);
    if (!batch.pairs) return token_stats;
    return weigh_pairs(*objective_, *batch.pairs, token_stats, mesh_).token_stats;
}

std::vector<double> Transformer::log_probs_of_sides(const TokenBatch& batch) const {
    const Positions positions = positions_->of(batch);
    const at::Tensor x = forward(reading(batch, positions));
    const at::Tensor token_stats = read_targets(batch, weights_of(index_.head), x);
    release(index_.head, NextUse::none);
    std::vector<double> of_answers;
    for (const SideSums& side : sum_sides(*batch.pairs, ops::on_host(token_stats), mesh_))
        of_answers.push_back(side.of_answer);
    return of_answers;
}

at::Tensor Transformer::embed_texts(const TokenBatch& batch) const {
    const Positions positions = positions_->of(batch);
    const at::Tensor x = forward(reading(batch, positions));
    const HeadViews weights(weights_of(index_.head), head_of(batch));
    at::Tensor embeddings =
        embed_documents(weights, x, HeadTargets(batch), {gemms_, 0, *objective_, chunks_.head});
    release(index_.head, NextUse::none);
    mesh_.ring().all_reduce(embeddings).wait();
    mesh_.ulysses().all_reduce(embeddings).wait();
    return embeddings;
}

at::Tensor Transformer::read_targets(const TokenBatch& batch, const shard::UnitTensors& weights,
                                     const at::Tensor& x) const {
    return for_heads(batch, [&](const HeadParameters& head, const HeadTargets& targets) {
        return head_forward(spec_, HeadViews(weights, head), x, targets,
                            {gemms_, 0, *objective_, chunks_.head});
    });
}

TokenScores Transformer::score(const TokenBatch& batch, int64_t top_k, double temperature) const {
    const Positions positions = positions_->of(batch);
    const at::Tensor x = forward(reading(batch, positions));
    const HeadViews weights(weights_of(index_.head), head_of(batch));
    TokenScores scores = head_scores(spec_, weights, x, HeadTargets(batch),
                                     {gemms_, 0, *objective_, chunks_.head}, {top_k, temperature});
    release(index_.head, NextUse::none);
    return scores;
}

at::Tensor Transformer::logits(const TokenBatch& batch) const {
    const Positions positions = positions_->of(batch);
    const at::Tensor x = forward(reading(batch, positions));
    const HeadViews weights(weights_of(index_.head), head_of(batch));
    at::Tensor logits = head_logits(spec_, gemms_, weights, x);
    release(index_.head, NextUse::none);
    return logits;
}

std::vector<LayerCache> Transformer::make_caches(int64_t capacity, int64_t texts) const {
    const auto options = at::TensorOptions(zero_.device()).dtype(zero_.compute_type());
    std::vector<LayerCache> caches(num_blocks());
    for (size_t block = 0; block < num_blocks(); ++block)
        for (const Mixer* const mixer : parts_->blocks[block].mixers())
            mixer->make_cache(caches[block], capacity, texts, options);
    return caches;
}

at::Tensor Transformer::next_logits(const TokenBatch& batch,
                                    std::span<const LayerCache> caches) const {
    const Positions positions = positions_->of(batch);
    const at::Tensor x = forward(reading(batch, positions, caches));
    const HeadViews weights(weights_of(index_.head), head_of(batch));
    at::Tensor logits = head_logits(spec_, gemms_, weights, x.index_select(0, batch.target_places));
    release(index_.head, NextUse::none);
    return logits;
}

}  // namespace ringshard::model
