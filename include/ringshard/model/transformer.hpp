#pragma once

#include <c10/core/DeviceType.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/config/activation_policies.hpp"
#include "ringshard/model/delayed_scaling.hpp"
#include "ringshard/model/fp8_products.hpp"
#include "ringshard/model/layer_cache.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/model/objective.hpp"
#include "ringshard/model/operations.hpp"
#include "ringshard/model/recorder.hpp"
#include "ringshard/model/router_load.hpp"
#include "ringshard/model/token_batch.hpp"
#include "ringshard/ops/gemm.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::config {
struct ParallelSettings;
struct TrainingSettings;
}  // namespace ringshard::config

namespace ringshard::model {

class ActivationStore;
class RecordedBlocks;
class RouterSums;
struct BlockContext;
struct Fp8Context;
struct HeadParameters;
struct ModelParts;
struct ModuleUnits;
class UnitSet;
class PositionTables;
struct Positions;
struct ProjectionContext;
struct SharedRows;

// Tokens that the head and the MLP work on at a time, where not everything is kept. Small chunks
// stay in a processor's caches, and large ones read weights and the sums of their gradients less
// often: on a GPU, 256 tokens would take four times as long for that as for the products.
// Rows that travel to experts of other ranks go in chunks too, while the experts compute on those
// before: an expert gets at least so many rows in each, in the mean.
struct Chunks {
    int64_t head = 256;
    int64_t mlp = 2048;
    int64_t rows_of_expert = 64;
    bool operator==(const Chunks&) const = default;
};
// The largest powers of two, within limits, at which logits take no more than 64 MB on a CPU and a
// 32nd of the memory of a GPU, and rows of the MLP no more than a 64th of that memory.
// `memory_bytes` of a GPU: the same on all ranks; 0: unknown.
Chunks chunks_of(const ModelSpec& spec, at::ScalarType type, c10::DeviceType device,
                 double memory_bytes);

// The schedule of a pass over the model, written out: which unit is gathered, computed, reduced and
// released, and when. The model knows nothing of how a profile shards its units.
class Transformer {
public:
    struct Options {
        config::ActivationPolicies policies{};
        std::optional<at::ScalarType> residual{};  // of the residual stream; else the compute type
        std::shared_ptr<const Objective> objective{};  // null: cross-entropy
        double noise = 0;                              // neftune_noise_alpha
        attention::ContextParallelOptions context_parallel{};
        // If products of the blocks' linear layers are in FP8.
        std::optional<Fp8Options> fp8{};
        DelayedScaling* delayed_scaling = nullptr;  // of these; it must outlive the model
        // The libraries of matrix products on the CPU. nullptr: the model opens a set of its own,
        // in which a rule assigns the products.
        const ops::Gemms* gemms = nullptr;
        double device_memory = 0;  // chunks_of()'s
        // Where activations are offloaded; nullptr: they stay in memory.
        offload::OffloadStore* activations = nullptr;
        // For blocks of batches whose shape comes again; not beside an offload store for
        // activations.
        Recorder* recorder = nullptr;
        // The type of the device that meta tensors stand for.
        std::optional<c10::DeviceType> planned_device{};
        // chunks_of() the device, where none are given.
        std::optional<Chunks> chunks{};
        // Called when a phase begins: "forward of block 3".
        std::function<void(const std::string&)> on_phase{};
    };
    Transformer(ModelSpec spec, shard::Zero& zero, const mesh::Mesh& mesh, const Options& options);
    ~Transformer();

    const ModelSpec& spec() const { return spec_; }
    const Operations& operations() const { return operations_; }
    const Objective& objective() const { return *objective_; }
    // Batches that are trained on need keys of dropout, by which tokens have their noise too.
    bool has_dropout() const { return has_dropout_; }
    // Those for which a batch has plans.
    const std::vector<attention::Mask>& masks() const { return masks_; }

    // Adds the gradients of gradient_scale x the sum of losses to those that Zero keeps. Returns
    // the statistics of each of this rank's target tokens; ops::add_up sums them. `share`: of this
    // micro-batch in the loss of the step that balances experts. Collective over the zero group;
    // over the world if there is such a loss.
    at::Tensor forward_backward(const TokenBatch& batch, double gradient_scale,
                                double share = 1) const;
    // What forward_backward() has recorded belongs into it when a step ends; null: no scale follows
    // from earlier steps.
    DelayedScaling* delayed_scaling() const { return delayed_scaling_; }
    // Returns the sums of the routers over the backward passes since the last call.
    RouterLoad take_router_load() const;

    // What evaluations report: for pairs all numbers of the objective. Collective over the zero
    // group.
    at::Tensor evaluate(const TokenBatch& batch) const;

    // The log-probability of each side of the batch's pairs. Collective over the zero group.
    std::vector<double> log_probs_of_sides(const TokenBatch& batch) const;

    // The embeddings of the batch's documents, [documents, width] fp32, which all ranks of the
    // sequence group get. Collective over the zero group.
    at::Tensor embed_texts(const TokenBatch& batch) const;

    // The cross-entropy, and the `top_k` most likely tokens in the place of each target, with
    // their log-probabilities at a temperature. Collective over the zero group.
    TokenScores score(const TokenBatch& batch, int64_t top_k, double temperature = 1) const;

    // Returns the GPU's attention operators that this batch uses.
    std::set<std::string> attention_operators(const TokenBatch& batch) const;

    // Of batches with a backward pass, where there is a recorder.
    Replays replays() const;

    // Logits [t, vocabulary] of this rank's tokens. Collective over the zero group.
    at::Tensor logits(const TokenBatch& batch) const;

    // Returns a cache of every block, for so many tokens of so many texts of this rank.
    std::vector<LayerCache> make_caches(int64_t capacity, int64_t texts) const;
    // Logits [n, vocabulary] of the tokens at the batch's target_places, which go on from the
    // caches: the batch's plans are over these. The sequence is not split. Collective over
    // the zero group.
    at::Tensor next_logits(const TokenBatch& batch, std::span<const LayerCache> caches) const;

private:
    size_t num_blocks() const { return spec_.blocks.size(); }
    std::vector<size_t> order_of_units(bool with_backward) const;
    // The activation store keeps the blocks' tensors if a backward pass follows. recorded: blocks
    // are replayed. caches: one of each block, where a text is generated.
    struct Pass {
        const TokenBatch& batch;
        const Positions& positions;
        bool has_backward;
        RecordedBlocks* recorded = nullptr;
        std::span<const LayerCache> caches{};
        const RouterSums* routers = nullptr;
        int64_t longest_of_experts = 0;
        std::unique_ptr<SharedRows> shared{};  // where blocks share rows
    };
    std::unique_ptr<SharedRows> make_shared_rows() const;  // null: blocks share none
    // The most tokens of a rank, of those that share experts; 0: each rank has all experts.
    // Collective over these ranks.
    int64_t longest_of_experts(const TokenBatch& batch) const;
    at::Tensor forward(const Pass& pass) const;  // the input of the head
    void backward(const Pass& pass, at::Tensor gradient) const;
    // The rows of tokens in the tables of embeddings.
    at::Tensor embed(const TokenBatch& batch) const;
    // Adds the noise of NEFTune to the rows of the embedding.
    void add_noise(const TokenBatch& batch, const at::Tensor& x) const;
    void embed_backward(const TokenBatch& batch, const at::Tensor& gradient) const;
    ProjectionContext context_of_layers(const Pass& pass) const;
    // Makes the rows that blocks get of the embeddings of layers, of the input x of the first one.
    void embed_layers(const Pass& pass, const at::Tensor& x) const;
    // Adds to the gradient of that input.
    void embed_layers_backward(const Pass& pass, const at::Tensor& gradient) const;
    // Calls work(head, targets) for the head of all targets; or, if adapters that train together
    // have their own, for the head of each adapter with targets. Joins the statistics that it
    // returns.
    template <class Work>
    at::Tensor for_heads(const TokenBatch& batch, Work work) const;
    // The cross-entropy of every target.
    at::Tensor read_targets(const TokenBatch& batch, const shard::UnitTensors& weights,
                            const at::Tensor& x) const;
    // The head of rows of one adapter, or of the model.
    const HeadParameters& head_of(const TokenBatch& batch) const;
    // Calls `work` with the table of each learner that has one of its own, and its range of tokens.
    template <class Work>
    void for_own_tables(const TokenBatch& batch, Work work) const;
    Pass reading(const TokenBatch& batch, const Positions& positions,
                 std::span<const LayerCache> caches = {}) const;
    // Of a module, but not of slices of experts: gathered, or where gradients are added up.
    // Collective over the zero group.
    shard::UnitTensors weights_of(size_t module) const;
    void release(size_t module, shard::Zero::NextUse next_use) const;
    shard::UnitTensors gradients_of(size_t module) const;
    void reduce(size_t module) const;  // the gradient of what is trained
    // next_use: of the slices of its experts.
    BlockContext context_of(size_t block, const Pass& pass, shard::Zero::NextUse next_use) const;
    std::optional<Fp8Context> fp8_of(size_t block, const Pass& pass) const;
    template <class... Values>
    void report_phase(TextPattern<sizeof...(Values)> pattern, const Values&... values) const;

    ModelSpec spec_;
    std::vector<attention::Mask> masks_;
    std::unique_ptr<const ModelParts> parts_;
    Operations operations_;
    ModuleIndex index_;
    shard::Zero& zero_;
    std::vector<ModuleUnits> units_;     // of every module, in zero_
    bool trains_table_ = true;           // the embedding
    bool layers_have_backward_ = false;  // the embeddings of layers
    // The adapter of the embedding, which alone the backward pass reads there; else null.
    std::unique_ptr<const UnitSet> trained_of_table_;
    bool has_dropout_ = false;
    double noise_ = 0;
    std::unique_ptr<const PositionTables> positions_;
    at::ScalarType residual_type_;  // of the rows between blocks and of their gradients
    std::optional<at::ScalarType> branch_type_;  // the compute type, if it is another one
    double embedding_multiplier_ = 1;
    size_t first_backward_block_ = 0;  // no backward pass goes below it
    const mesh::Mesh& mesh_;
    attention::ContextParallelOptions context_parallel_;
    c10::DeviceType device_;                       // or that which meta tensors stand for
    std::unique_ptr<const ops::Gemms> own_gemms_;  // where none were given
    const ops::Gemms& gemms_;
    std::vector<config::ActivationPolicy> policies_;  // of the blocks
    std::shared_ptr<const Objective> objective_;
    std::optional<Fp8Options> fp8_;
    DelayedScaling* delayed_scaling_;
    Chunks chunks_;
    std::unique_ptr<ActivationStore> activations_;
    std::unique_ptr<RecordedBlocks> recorded_;  // where there is a recorder
    std::function<void(const std::string&)> on_phase_;
    std::unique_ptr<RouterSums> routers_;
    comm::Communicator* experts_;  // the ranks that share them; null: all are here
};

// Returns the options that the settings ask for.
attention::ContextParallelOptions context_parallel_options(
    const config::ParallelSettings& parallel);
std::optional<at::ScalarType> residual_type(const config::TrainingSettings& training);

}  // namespace ringshard::model
