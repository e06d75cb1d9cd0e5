#pragma once

#include <memory>
#include <vector>

#include "block.hpp"
#include "ringshard/model/recorder.hpp"

namespace ringshard::model {

// Records the work of the blocks (CUDA graphs) for one shape of batches and replays it for later
// batches of that shape: the host launches one graph per block and direction instead of dozens of
// kernels. A shape is recorded when it comes the second time in a row; batches of other shapes run
// unrecorded. A shape is recorded again when tensors in FP8 get or lose a scale of their history:
// other kernels compute then. The tensors that a recording keeps for the backward pass stay
// allocated.
class RecordedBlocks {
public:
    using Plans = std::vector<attention::Plan>;

    RecordedBlocks(const std::vector<Block>& blocks, const std::vector<size_t>& plan_of_block,
                   const attention::SequenceAttention& attention,
                   const attention::SequenceDelta& delta, const ops::Gemms& gemms,
                   std::vector<config::ActivationPolicy> policies, int64_t mlp_chunk,
                   std::optional<Fp8Options> fp8, const DelayedScaling* delayed_scaling,
                   Recorder& recorder);
    ~RecordedBlocks();

    // Begins a batch that has a backward pass. Returns true if recordings serve its shape: then
    // call forward() from the first block to the last and backward() from the last to the first,
    // in place of Block::forward() and Block::backward().
    // counted: the first tokens; the others only fill the batch up.
    bool try_begin_replay(const Plans& plans, const Positions& positions, int64_t counted);
    const Replays& replays() const { return replays_; }
    at::Tensor forward(size_t block, const shard::UnitTensors& weights, Saved& saved);
    // Returns the gradient of the input.
    at::Tensor backward(size_t block, const shard::UnitTensors& weights,
                        const shard::UnitTensors& gradients, const at::Tensor& gradient,
                        Saved saved);

private:
    struct Shape;
    int64_t generation() const;

    const std::vector<Block>& blocks_;
    const std::vector<size_t>& plan_of_block_;
    const attention::SequenceAttention& attention_;
    const attention::SequenceDelta& delta_;
    const ops::Gemms& gemms_;
    std::vector<config::ActivationPolicy> policies_;  // of the blocks
    int64_t mlp_chunk_;
    std::optional<Fp8Options> fp8_;
    const DelayedScaling* delayed_scaling_;
    Recorder& recorder_;
    Plans last_plans_;
    std::unique_ptr<Shape> shape_;
    Replays replays_;
};

}  // namespace ringshard::model
