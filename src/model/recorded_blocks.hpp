#pragma once

#include <memory>
#include <vector>

#include "block.hpp"
#include "ringshard/model/recorder.hpp"

namespace ringshard::model {

// What blocks compute, recorded for one shape of batches and replayed for all that come after it:
// the host gives a GPU one piece of work for a block and direction, in place of dozens. A shape is
// recorded when it comes the second time in a row; batches of other shapes go the common way. What
// recordings keep for the backward pass stays in their memory from then on.
class RecordedBlocks {
public:
    using Plans = std::vector<attention::Plan>;

    RecordedBlocks(const std::vector<Block>& blocks, const std::vector<size_t>& plan_of_block,
                   const attention::SequenceAttention& attention, const ops::Gemms& gemms,
                   std::vector<config::ActivationPolicy> policies, int64_t mlp_chunk,
                   Recorder& recorder);
    ~RecordedBlocks();

    // A batch begins, with a backward pass to come. Whether its blocks go by way of recordings:
    // first forward(), from the first block to the last, then backward(), from the last to the
    // first, as Block::forward() and Block::backward() would.
    bool take(const Plans& plans, const ops::RopeTable& rope);
    const Replays& replays() const { return replays_; }
    at::Tensor forward(size_t block, const shard::UnitTensors& weights, Saved& saved);
    // Returns the gradient of the input.
    at::Tensor backward(size_t block, const shard::UnitTensors& weights,
                        const shard::UnitTensors& gradients, const at::Tensor& gradient,
                        Saved saved);

private:
    struct Shape;

    const std::vector<Block>& blocks_;
    const std::vector<size_t>& plan_of_block_;
    const attention::SequenceAttention& attention_;
    const ops::Gemms& gemms_;
    std::vector<config::ActivationPolicy> policies_;  // of the blocks
    int64_t mlp_chunk_;
    Recorder& recorder_;
    Plans last_plans_;
    std::unique_ptr<Shape> shape_;
    Replays replays_;
};

}  // namespace ringshard::model
