#pragma once

#include <memory>

#include "feed_forward.hpp"
#include "layer_input.hpp"
#include "layer_output.hpp"
#include "mixer.hpp"

namespace ringshard::model {

// Rows of the residual stream go through a part and join the stream again: the stages of a layer.
class Layer {
public:
    virtual ~Layer() = default;
    Layer(const Layer&) = delete;
    Layer& operator=(const Layer&) = delete;

    // Returns the stream [t, w] behind the layer; makes what is not there. Collective as its part.
    virtual at::Tensor forward(const Pass& pass) const = 0;
    // Adds to the gradients of the weights and of the rows that the layer reads.
    virtual void backward(const BackwardPass& pass) const = 0;

    // makes_result_again: the backward pass reads the result, which was not kept.
    virtual void add_costs(StageCosts& costs, bool makes_result_again) const = 0;
    virtual const Part& part() const = 0;
    virtual const Mixer* mixer() const { return nullptr; }
    // Linear layers, which take adapters.
    std::vector<const Projection*> projections() const;

protected:
    Layer(std::unique_ptr<const LayerInput> input, std::unique_ptr<const Addition> addition)
        : input_(std::move(input)), addition_(std::move(addition)) {}

    std::unique_ptr<const LayerInput> input_;
    std::unique_ptr<const Addition> addition_;
};

class MixerLayer final : public Layer {
public:
    MixerLayer(std::unique_ptr<const Mixer> mixer, std::unique_ptr<const LayerInput> input,
               std::unique_ptr<const Addition> addition, int64_t width)
        : Layer(std::move(input), std::move(addition)),
          mixer_(std::move(mixer)),
          width_(static_cast<double>(width)) {}

    at::Tensor forward(const Pass& pass) const override;
    void backward(const BackwardPass& pass) const override;
    void add_costs(StageCosts& costs, bool makes_result_again) const override;
    const Part& part() const override { return *mixer_; }
    const Mixer* mixer() const override { return mixer_.get(); }

private:
    void mix(const Pass& pass) const;

    std::unique_ptr<const Mixer> mixer_;
    double width_;
};

// Where a policy keeps nothing of the feed-forward it runs in chunks of tokens, so that the rows
// between its products never exist for all of them.
class FeedForwardLayer final : public Layer {
public:
    FeedForwardLayer(std::unique_ptr<const FeedForward> part,
                     std::unique_ptr<const LayerInput> input,
                     std::unique_ptr<const Addition> addition, const SavedSlot& stream)
        : Layer(std::move(input), std::move(addition)), part_(std::move(part)), stream_(stream) {}

    at::Tensor forward(const Pass& pass) const override;
    void backward(const BackwardPass& pass) const override;
    void add_costs(StageCosts& costs, bool makes_result_again) const override;
    const Part& part() const override { return *part_; }

private:
    // Calls `work` with the chunks of the pass: one after the other, or together where the experts
    // come in slices.
    template <class Work>
    void for_chunks(const Pass& pass, config::ActivationPolicy kept_in_chunks, Work work) const;

    std::unique_ptr<const FeedForward> part_;
    SavedSlot stream_;  // to which it adds
};

}  // namespace ringshard::model
