#pragma once

#include <string>
#include <vector>

#include "part.hpp"
#include "ringshard/attention/sequence_delta.hpp"
#include "ringshard/model/block_spec.hpp"
#include "ringshard/ops/delta_gates.hpp"

namespace ringshard::model {

// The weights of a state of the delta rule: those of the convolution before it, of its decays, and
// of the norm behind it, whose result gates multiply.
class GatedDelta {
public:
    struct Form {
        std::vector<shard::TensorSpec> conv;
        shard::TensorSpec bias;      // dt_bias
        shard::TensorSpec log_rate;  // A_log
        shard::InitialValues initial_bias;
        std::string norm;
        double epsilon;
        ops::Opening opening = ops::Opening::silu;
        // As in ops::DecayWeights.
        double least_log_decay = 0;
        double beta_scale = 1;
    };
    // Returns the form of states whose queries, keys and values have a convolution each.
    static Form of_heads(const std::string& module, const attention::DeltaSizes& sizes,
                         double epsilon);

    GatedDelta(shard::UnitLayout& unit, const Form& form, const attention::DeltaSizes& sizes);

    attention::DeltaWeights weights(const shard::UnitTensors& tensors) const;

    // read and gates [t, values].
    at::Tensor gated(const shard::UnitTensors& tensors, const at::Tensor& read,
                     const at::Tensor& gates) const;
    struct Gradient {
        at::Tensor read;
        at::Tensor gates;
    };
    Gradient gated_backward(const BackwardPass& pass, const at::Tensor& d_gated,
                            const at::Tensor& read, const at::Tensor& gates) const;

private:
    at::Tensor heads(const at::Tensor& rows) const { return rows.reshape({-1, value_dim_}); }
    ops::GatedNorm norm(const shard::UnitTensors& tensors) const {
        return {tensors[norm_], epsilon_, opening_};
    }

    int64_t value_dim_;
    double epsilon_;
    ops::Opening opening_;
    double least_log_decay_;
    double beta_scale_;
    shard::ParameterId conv_;
    shard::ParameterId bias_;
    shard::ParameterId log_rate_;
    shard::ParameterId norm_;
};

constexpr int64_t taps_of_delta = attention::rows_before + 1;  // of the convolution

}  // namespace ringshard::model
