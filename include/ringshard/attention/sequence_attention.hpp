#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ringshard/attention/plan.hpp"
#include "ringshard/comm/communicator.hpp"
#include "ringshard/ops/rope.hpp"
#include "ringshard/ops/score_form.hpp"

namespace ringshard::attention {

struct HeadCounts {
    int64_t query_heads;
    int64_t key_heads;  // divides query_heads
    int64_t head_dim;
};

// Why these heads cannot be shared by so many Ulysses ranks; empty if they can.
std::string why_heads_do_not_split(const HeadCounts& heads, int64_t ulysses);
// Every number of ranks that can share them, ascending.
std::vector<int64_t> ulysses_sizes(const HeadCounts& heads);

// Copies the document starts of a batch to the GPU, once for all layers. Does nothing on the CPU.
void prepare_plans(std::vector<Plan>& plans, at::Device device);

// How context-parallel ranks exchange keys, values and heads.
struct ContextParallelOptions {
    // Keys and values of ring ranks. rotate: one rank's shard at a time moves round the ring while
    // the tiles of the one before are computed. all_gather: all at once, with the memory of all.
    // With a narrow window neither: ranks exchange the keys that they need.
    enum class Keys { rotate, all_gather };
    Keys keys = Keys::rotate;
    // The type in which Ulysses ranks exchange heads; by default the type of the computation.
    std::optional<at::ScalarType> heads{};
};

// The keys and values of one layer that later tokens attend to, where a text is generated.
struct KeyValueCache {
    at::Tensor keys;      // [capacity, g, d]
    at::Tensor values;    // [capacity, g, d]
    at::Tensor places{};  // [t] int64: where the tokens of the next pass go
};

// The attention sinks of a layer, [h]: a score of each query head in the denominator of its
// softmax, without a value. A layer without sinks has undefined tensors.
struct Sinks {
    at::Tensor scores{};
    at::Tensor gradient{};  // fp32, to be added to; undefined: the sinks are frozen
};

// The work on the gradient of qkv that follows attention: on a GPU it is done in the pass that
// writes the gradient, where one rank has all tokens and heads.
struct GradientFinish {
    const ops::RopeTable* rope = nullptr;  // turns queries and keys back
    at::Tensor d_bias{};                   // [(h + 2 g) d] fp32: the sum of the rows is added to it
};

// Exact causal attention within documents, over a sequence that is split over the ranks of a ring
// and of Ulysses groups: Ulysses exchanges tokens for heads on the way in and back on the way out,
// and in between the queries of a ring rank attend to the keys and values of all ring ranks. A
// single rank exchanges nothing.
class SequenceAttention {
public:
    // planned: the type of the device that meta tensors stand for.
    SequenceAttention(const HeadCounts& heads, comm::Communicator& ring,
                      comm::Communicator& ulysses,
                      const ContextParallelOptions& context_parallel = {},
                      c10::DeviceType planned = c10::DeviceType::CPU,
                      const ops::ScoreForm& form = {});

    struct Result {
        at::Tensor out;  // [t, h d] for this rank's tokens, type of qkv
        at::Tensor lse;  // [ring rank's t, this rank's heads] fp32, for the backward pass
    };
    // qkv [t, (h + 2 g) d]: a row is its query heads, its key heads, its value heads. sinks:
    // Sinks::scores. Collective over the sequence group.
    Result forward(const at::Tensor& qkv, const Plan& plan, const at::Tensor& sinks = {}) const;
    // The gradient of qkv. Collective over the sequence group.
    at::Tensor backward(const at::Tensor& d_out, const at::Tensor& qkv, const Result& result,
                        const Plan& plan, const Sinks& sinks = {},
                        const GradientFinish& finish = {}) const;

    // Stores the keys and values of qkv in the cache, and returns [t, h d], the attention of its
    // queries to the keys there: the keys of the plan's tiles count in places of the cache. Not
    // collective: each rank has sequences of its own.
    at::Tensor attend_cached(const at::Tensor& qkv, const Plan& plan, const KeyValueCache& cache,
                             const at::Tensor& sinks = {}) const;

    // Returns the attention operators that a GPU uses for this plan; empty on the CPU.
    std::set<std::string> operators(const Plan& plan, at::ScalarType type, at::Device device) const;

    // Returns true if the work of a plan is the same every time and on this rank alone: no rank
    // exchanges tensors, and lengths of documents that the GPU's kernels take are on the device.
    bool can_be_recorded(const Plan& plan) const;

private:
    // Returns the implementation that brings the keys of other ranks.
    template <class Way>
    Way* way_of(const Plan& plan, Way& ring, Way& gathered, Way& exchanged) const {
        if (plan.exchange) return &exchanged;
        return gathers_keys_ ? &gathered : &ring;
    }

    // The part of a tensor [h] that belongs to the heads that this rank attends with.
    at::Tensor of_own_heads(const at::Tensor& of_heads) const;

    HeadCounts heads_;
    comm::Communicator& ring_;
    comm::Communicator& ulysses_;
    bool gathers_keys_;
    std::optional<at::ScalarType> exchange_type_of_heads_;
    c10::DeviceType planned_;
    ops::ScoreForm form_;
};

}  // namespace ringshard::attention
