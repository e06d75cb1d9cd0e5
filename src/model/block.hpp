#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "parts/layer.hpp"
#include "parts/output_beside_mlp.hpp"

namespace ringshard::model {

// What the device and the precision of a run make of neighbouring stages: one stage.
struct Fusions {
    bool products_add = false;  // a product adds to rows as it writes them
    bool has_one_type = true;   // the residual stream has the type of the products
};

// One transformer block, forward and backward: layers, each of which adds to the residual stream,
// which may be in fp32 beside products in bf16 (BlockContext::branch_type). A layer is a list of
// stages: input, part, output, addition; neighbours may be one stage, as the constructor chooses.
class Block {
public:
    Block(shard::UnitLayout& unit, const BlockSpec& spec, const Fusions& fusions = {});

    // Returns the state with which a forward pass begins.
    Saved begin(const at::Tensor& input) const;
    const at::Tensor& input(const Saved& saved) const { return saved[input_]; }
    // Returns the output [t, w]; leaves in `saved` the activations that the policy keeps.
    // Collective over the sequence group, and the ranks that share experts.
    at::Tensor forward(const BlockContext& context, const shard::UnitTensors& weights,
                       Saved& saved) const;
    // Adds to the gradients of the weights, and turns `gradient`, that of the output, into that of
    // the input. Collective as forward().
    void backward(const BlockContext& context, const shard::UnitTensors& weights,
                  const shard::UnitTensors& gradients, const at::Tensor& gradient,
                  Saved saved) const;

    StageCosts costs(config::ActivationPolicy policy) const;
    // Linear layers, which take adapters.
    std::vector<const Projection*> projections() const;
    // All weights that rows are multiplied with.
    std::vector<WeightUse> weights() const;
    std::vector<const Mixer*> mixers() const;

private:
    // What is around the part of a layer.
    struct Around {
        std::shared_ptr<const Norm> before;  // null: the layer has none
        std::shared_ptr<const Norm> behind;
        bool is_parallel;  // it reads the rows that the layer before it reads
        double factor;     // of its output
        std::optional<MlpBeside> beside{};
    };
    // A layer in its place.
    struct Placed {
        std::unique_ptr<const Layer> layer;
        bool is_parallel;  // reads the rows that the layer before it reads
        double factor;     // of its output
        SavedSlot source;  // those
        SavedSlot stream;  // the rows to which it adds
        SavedSlot result;
        std::optional<SavedSlot> unadded;  // its output, which the next layer's norm adds
    };
    // Adds the next layer; all: what is around those of the block.
    template <class PartOfLayer>
    void add_layer(std::unique_ptr<const PartOfLayer> part, const std::vector<Around>& all,
                   int64_t width, const Fusions& fusions);
    std::unique_ptr<const LayerInput> make_input(std::shared_ptr<const Norm> norm, const Part& part,
                                                 const SavedSlot& source,
                                                 config::ActivationPolicy keeps);
    std::unique_ptr<const Output> make_output(const Around& around, const Part& part,
                                              const SavedSlot& source,
                                              config::ActivationPolicy keeps);
    // Returns true if the backward pass of the layers behind reads the result of this one.
    bool is_read(size_t layer) const { return layer + 1 < layers_.size(); }

    SavedLayout slots_;
    SavedSlot input_;  // [t, w]
    std::vector<Placed> layers_;
    std::optional<shard::ParameterId> stream_factor_;
};

}  // namespace ringshard::model
