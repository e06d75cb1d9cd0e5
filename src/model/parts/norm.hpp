#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "../saved.hpp"
#include "ringshard/model/block_spec.hpp"
#include "ringshard/ops/layer_norm.hpp"
#include "ringshard/ops/rms_norm.hpp"
#include "ringshard/shard/flat_unit.hpp"
#include "stage_costs.hpp"

namespace ringshard::model {

// An RMSNorm or a LayerNorm of rows.
class Norm {
public:
    struct Spec {
        std::string name;  // of its tensor, without the ending
        int64_t width;
        NormForm form;
        // Of one of the adapters that train together, in place of the model's: its name and number.
        std::string adapter{};
        size_t number = 0;
        const char* ending = ".weight";
    };
    Norm(shard::UnitLayout& unit, const Spec& spec);

    // Of a LayerNorm inverse_rms is undefined.
    ops::RmsNormed forward(const shard::UnitTensors& weights, const at::Tensor& x) const;
    // Returns true if it can norm a sum while the sum is made.
    bool can_add() const { return !form_.is_centred; }
    double width() const { return width_; }
    // The norm of factor * branch + x, which is written over the branch.
    ops::RmsNormed add_forward(const shard::UnitTensors& weights, const at::Tensor& branch,
                               double factor, const at::Tensor& x) const;
    // Returns the normed rows again.
    at::Tensor again(const shard::UnitTensors& weights, const at::Tensor& x,
                     const at::Tensor& inverse_rms) const;
    // Adds to `dx` and to the gradient of the weight. makes_rows, if the norm can: writes the
    // normed rows again, over dy.
    void backward(const shard::UnitTensors& weights, const shard::UnitTensors& gradients,
                  const at::Tensor& dy, const at::Tensor& x, const at::Tensor& inverse_rms,
                  const at::Tensor& dx, bool makes_rows = false) const;
    bool can_make_rows() const { return !form_.is_centred; }

    // Adds a pass forward and one backward; and the rows made again by another one forward.
    void add_costs(StageCosts& costs) const;
    void add_costs_again(StageCosts& costs) const;
    std::vector<std::string> kernels() const;  // forward
    std::vector<std::string> backward_kernels() const;

private:
    ops::NormWeight weight_of(const shard::UnitTensors& weights) const;
    ops::LayerNorm layer_norm(const shard::UnitTensors& weights) const;

    NormForm form_;
    double width_;
    std::optional<shard::ParameterId> weight_;
    std::optional<shard::ParameterId> bias_;
};

// An RMSNorm of ranges of rows, each by itself with the same weight, if it has one: of the heads of
// the queries, keys or values. In place; keeps the rows as they were.
class HeadNorm {
public:
    // The range counts in units of the norm's width.
    HeadNorm(shard::UnitLayout& unit, SavedLayout& saved, const Norm::Spec& spec,
             ops::HeadRange range);

    void forward(const shard::UnitTensors& weights, const at::Tensor& rows, Saved& saved) const;
    // Turns the gradient of the normed rows into that of the rows before, in place.
    void backward(const shard::UnitTensors& weights, const shard::UnitTensors& gradients,
                  const at::Tensor& d_rows, const Saved& saved) const;

private:
    ops::NormWeight weight_of(const shard::UnitTensors& weights, const at::Tensor& rows) const;

    NormForm form_;
    int64_t width_;
    ops::HeadRange range_;
    std::optional<shard::ParameterId> weight_;
    SavedSlot before_;
    SavedSlot inverse_rms_;
};

}  // namespace ringshard::model
