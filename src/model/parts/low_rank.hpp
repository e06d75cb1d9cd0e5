#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "projection_spec.hpp"
#include "ringshard/ops/dropout.hpp"
#include "ringshard/shard/flat_unit.hpp"

namespace ringshard::model {

// Returns "lora_A.weight", with the name of one of several adapters as PEFT has it.
std::string matrix_name(const char* matrix, const std::string& adapter);

// The adapters of the layers of a projection. For the columns y_i = x W_i^T of layer i:
//
//   LoRA: y_i += s_i ((x A_i^T) B_i^T + b_i), where B has a bias b_i (PEFT's lora_bias)
//   DoRA: y_i = c_i (x W_i^T + s_i (x A_i^T) B_i^T), c_i = m_i / norms of the rows of W_i + s_i B_i
//   A_i
//
// The magnitudes m_i are trained, and the norms count as constants in the backward pass. Dropout
// drops x in all that is added to x W_i^T, with a mask for each layer. The matrices A lie side by
// side, A [r, in], and are one product where nothing is dropped. Dimensions: t tokens, r all ranks.
class LowRank {
public:
    // What learner `number` adds to the layers; nothing where it adapts none of them.
    static std::optional<LowRank> of(shard::UnitLayout& unit, const ProjectionSpec& spec,
                                     size_t number);

    // The tensors that a call reads: `base` is the weight [out, in] of all layers.
    struct Operands {
        const ProjectionContext& context;
        const shard::UnitTensors& weights;
        at::Tensor base;
    };
    // y: x W^T + bias. Magnitudes do not scale the bias [out], which may be undefined.
    void forward(const Operands& operands, const at::Tensor& x, const at::Tensor& bias,
                 const at::Tensor& y) const;

    // The gradients that a backward pass needs more than once.
    struct Gradient {
        at::Tensor y;                   // [t, out]
        at::Tensor scaled;              // y, times c_i in the columns of layers with magnitudes
        at::Tensor inner;               // [t, r], of x A^T
        std::vector<at::Tensor> norms;  // by layer; undefined without a magnitude
    };
    // Scales `scaled`, a copy of dy where there are magnitudes, else dy itself.
    Gradient begin_backward(const Operands& operands, const at::Tensor& dy,
                            const at::Tensor& scaled) const;
    // Whether the gradient of x W^T is dy with c_i, as where nothing is dropped.
    bool scales_base(const ProjectionContext& context) const {
        return has_magnitudes_ && !drops(context);
    }
    // Adds to the gradient of x, which has that of x W^T, what the adapter adds to it.
    void add_input_gradient(const Operands& operands, const Gradient& gradient,
                            const at::Tensor& dx) const;
    void add_gradients(const Operands& operands, const shard::UnitTensors& gradients,
                       const Gradient& gradient, const at::Tensor& x) const;
    // Both, which makes each mask once.
    void add_all_gradients(const Operands& operands, const shard::UnitTensors& gradients,
                           const Gradient& gradient, const at::Tensor& x,
                           const at::Tensor& dx) const;

    bool has_magnitudes() const { return has_magnitudes_; }
    // Of a token and the forward pass; and those that the backward pass has beyond two for each of
    // the forward pass.
    double operations() const { return operations_; }
    double more_operations_backward() const { return more_operations_backward_; }

private:
    struct Layer {
        shard::ParameterId b;
        std::optional<shard::ParameterId> magnitude;
        std::optional<shard::ParameterId> bias;
        int64_t column;  // of y
        int64_t out;
        int64_t first;  // of the ranks
        int64_t rank;
        double scaling;
        uint64_t salt;       // of the mask
        uint64_t norms_key;  // in RowNorms
    };
    explicit LowRank(shard::ParameterId a) : a_(a) {}
    void add_layer(shard::UnitLayout& unit, const ProjectionSpec& spec, size_t number, size_t layer,
                   int64_t column);
    bool drops(const ProjectionContext& context) const {
        return dropout_ > 0 && context.dropout_keys.defined();
    }
    ops::DropoutMask mask_of(const ProjectionContext& context, const Layer& layer) const {
        return {context.dropout_keys, layer.salt, dropout_};
    }
    at::Tensor dropped(const ProjectionContext& context, const Layer& layer,
                       const at::Tensor& x) const;
    at::Tensor a_of(const shard::UnitTensors& tensors, const Layer& layer) const;
    at::Tensor norms_of(const Operands& operands, const Layer& layer) const;
    at::Tensor dropped_input_gradient(const Operands& operands, const Gradient& gradient,
                                      const Layer& layer) const;
    void add_gradients_of_dropped(const Operands& operands, const shard::UnitTensors& gradients,
                                  const Gradient& gradient, size_t layer,
                                  const at::Tensor& seen) const;
    void add_output_gradients(const Operands& operands, const shard::UnitTensors& gradients,
                              const Gradient& gradient, size_t layer, const at::Tensor& seen,
                              const at::Tensor& inner) const;

    shard::ParameterId a_;
    std::vector<Layer> layers_;
    int64_t rank_ = 0;
    double dropout_ = 0;
    bool has_magnitudes_ = false;
    double operations_ = 0;
    double more_operations_backward_ = 0;
};

}  // namespace ringshard::model
