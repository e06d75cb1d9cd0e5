#include "recorded_blocks.hpp"

#include <ATen/ops/empty_like.h>

namespace ringshard::model {

namespace {

// Gathered weights lie in buffers of a pool, in the same order in every pass once all buffers
// exist. If a block still finds its weights at other addresses, it runs without a recording after
// this many.
constexpr int most_recordings = 8;

// Returns memory with a fixed address, for numbers whose address changes from batch to batch.
at::Tensor fixed(const at::Tensor& like) { return at::empty_like(like); }

void bring_to(const at::Tensor& place, const at::Tensor& numbers) {
    if (!place.is_same(numbers)) place.copy_(numbers);
}

struct Forward {
    std::unique_ptr<Recording> recording;
    int times_recorded = 0;
    std::vector<const void*> weights;
    at::Tensor input;
    Saved saved;
    at::Tensor output;
};

struct Backward {
    std::unique_ptr<Recording> recording;
    int times_recorded = 0;
    int forward_recorded = 0;  // times, when this was
    std::vector<const void*> weights;
    std::vector<const void*> gradients;
    at::Tensor gradient;
};

}  // namespace

// The recordings for one shape of batches. The tensors that they read keep their addresses. Batches
// with equal plans have equal document starts, and so equal positions.
struct RecordedBlocks::Shape {
    Shape(const RecordedBlocks& all, const TokenBatch& first, const Positions& of_all)
        : blocks(all),
          batch(first),
          positions(of_all),
          generation(all.generation()),
          forward(blocks.blocks_.size()),
          backward(blocks.blocks_.size()) {}

    BlockContext context_of(size_t block) const {
        return blocks.context_of_(block, batch, positions);
    }
    bool serves(const TokenBatch& other) const {
        return batch.plans == other.plans && batch.num_counted() == other.num_counted() &&
               batch.learner_bounds == other.learner_bounds && generation == blocks.generation();
    }

    const RecordedBlocks& blocks;
    TokenBatch batch;  // the first one of this shape
    Positions positions;
    int64_t generation;
    std::vector<Forward> forward;
    std::vector<Backward> backward;
};

RecordedBlocks::RecordedBlocks(const std::vector<Block>& blocks, ContextOf context_of,
                               const DelayedScaling* delayed_scaling, Recorder& recorder)
    : blocks_(blocks),
      context_of_(std::move(context_of)),
      delayed_scaling_(delayed_scaling),
      recorder_(recorder) {}

RecordedBlocks::~RecordedBlocks() = default;

int64_t RecordedBlocks::generation() const {
    return delayed_scaling_ == nullptr ? 0 : delayed_scaling_->generation();
}

bool RecordedBlocks::can_be_recorded(const TokenBatch& batch, const Positions& positions) const {
    for (size_t block = 0; block < blocks_.size(); ++block) {
        const BlockContext context = context_of_(block, batch, positions);
        for (const Mixer* const mixer : blocks_[block].mixers())
            if (!mixer->can_be_recorded(context)) return false;
    }
    return true;
}

bool RecordedBlocks::try_begin_replay(const TokenBatch& batch, const Positions& positions) {
    ++replays_.batches;
    if (!shape_ || !shape_->serves(batch)) {
        const bool comes_again = last_plans_ == batch.plans;
        last_plans_ = batch.plans;
        if (!comes_again || !can_be_recorded(batch, positions)) return false;
        shape_ = std::make_unique<Shape>(*this, batch, positions);
    }
    ++replays_.replayed;
    return true;
}

at::Tensor RecordedBlocks::forward(size_t block, const shard::UnitTensors& weights, Saved& saved) {
    Forward& f = shape_->forward[block];
    const at::Tensor input = blocks_[block].input(saved);
    const bool is_first = block == 0;
    const bool fits =
        f.recording && f.weights == weights.addresses() && (is_first || f.input.is_same(input));
    if (!fits && f.times_recorded == most_recordings) {
        f.recording.reset();
        return blocks_[block].forward(shape_->context_of(block), weights, saved);
    }
    if (!fits) {
        f.weights = weights.addresses();
        f.input = is_first ? fixed(input) : input;
    }
    bring_to(f.input, input);
    if (!fits) {
        ++f.times_recorded;
        auto [recording, made] = recorder_.record([this, block, input = f.input, weights] {
            Saved kept = blocks_[block].begin(input);
            std::vector<at::Tensor> tensors{
                blocks_[block].forward(shape_->context_of(block), weights, kept)};
            for (const at::Tensor& tensor : kept.tensors()) tensors.push_back(tensor);
            return tensors;
        });
        f.recording = std::move(recording);
        f.output = made.front();
        f.saved.tensors().assign(made.begin() + 1, made.end());
    }
    f.recording->replay();
    saved = f.saved;
    return f.output;
}

at::Tensor RecordedBlocks::backward(size_t block, const shard::UnitTensors& weights,
                                    const shard::UnitTensors& gradients, const at::Tensor& gradient,
                                    Saved saved) {
    gradients.begin_all();  // a recording adds, in the first micro-batch too
    const Forward& f = shape_->forward[block];
    Backward& b = shape_->backward[block];
    const bool is_last = block + 1 == shape_->backward.size();
    const bool fits = b.recording && b.forward_recorded == f.times_recorded &&
                      b.weights == weights.addresses() && b.gradients == gradients.addresses() &&
                      (is_last || b.gradient.is_same(gradient));
    if (!f.recording || (!fits && b.times_recorded == most_recordings)) {
        blocks_[block].backward(shape_->context_of(block), weights, gradients, gradient,
                                std::move(saved));
        return gradient;
    }
    if (!fits) {
        b.forward_recorded = f.times_recorded;
        b.weights = weights.addresses();
        b.gradients = gradients.addresses();
        b.gradient = is_last ? fixed(gradient) : gradient;
    }
    bring_to(b.gradient, gradient);
    if (!fits) {
        ++b.times_recorded;
        const auto work = [this, block, in_out = b.gradient, weights, gradients, kept = f.saved] {
            blocks_[block].backward(shape_->context_of(block), weights, gradients, in_out, kept);
            return std::vector<at::Tensor>{};
        };
        b.recording = recorder_.record(work).recording;
    }
    b.recording->replay();
    return b.gradient;
}

}  // namespace ringshard::model
