#pragma once

#include <functional>
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

    // context_of: of a block, for batches with a backward pass.
    using ContextOf = std::function<BlockContext(size_t block, const TokenBatch& batch,
                                                 const Positions& positions)>;
    RecordedBlocks(const std::vector<Block>& blocks, ContextOf context_of,
                   const DelayedScaling* delayed_scaling, Recorder& recorder);
    ~RecordedBlocks();

    // Begins a batch that has a backward pass. Returns true if recordings serve its shape: then
    // call forward() from the first block to the last and backward() from the last to the first,
    // in place of Block::forward() and Block::backward().
    bool try_begin_replay(const TokenBatch& batch, const Positions& positions);
    const Replays& replays() const { return replays_; }
    at::Tensor forward(size_t block, const shard::UnitTensors& weights, Saved& saved);
    // Returns the gradient of the input.
    at::Tensor backward(size_t block, const shard::UnitTensors& weights,
                        const shard::UnitTensors& gradients, const at::Tensor& gradient,
                        Saved saved);

private:
    struct Shape;
    int64_t generation() const;
    bool can_be_recorded(const TokenBatch& batch, const Positions& positions) const;

    const std::vector<Block>& blocks_;
    ContextOf context_of_;
    const DelayedScaling* delayed_scaling_;
    Recorder& recorder_;
    Plans last_plans_;
    std::unique_ptr<Shape> shape_;
    Replays replays_;
};

}  // namespace ringshard::model
