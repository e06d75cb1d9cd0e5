#pragma once

#include <memory>

#include "../block_context.hpp"
#include "norm.hpp"
#include "projection.hpp"
#include "stage_costs.hpp"

namespace ringshard::model {

// How the backward pass of a layer comes to the rows that its product reads.
enum class RowsInBackward { made_again_alone, made_with_the_part };

// The stage with which a layer begins: rows of the residual stream become rows of its part.
class LayerInput {
public:
    virtual ~LayerInput() = default;

    // Returns the rows [t, w], of the type of the products.
    virtual at::Tensor forward(const Pass& pass) const = 0;
    // Returns them again, in a backward pass.
    virtual at::Tensor again(const Pass& pass) const = 0;
    // Adds to the gradient of the stream. dx: of the rows, is written over.
    virtual void add_gradient(const BackwardPass& pass, const at::Tensor& dx) const = 0;
    // The backward pass of the product that reads the rows, from the gradient of its result, and
    // that above.
    virtual void backward(const BackwardPass& pass, const Projection& product, const at::Tensor& dy,
                          BiasGradient of_bias = BiasGradient::is_missing) const {
        add_gradient(pass, product.backward(pass.context.projections, pass.weights, pass.gradients,
                                            dy, again(pass), of_bias));
    }

    virtual void add_costs(StageCosts& costs, bool is_made_again, RowsInBackward rows) const = 0;
    // The slots of the stream that it reads, by token.
    virtual std::vector<SavedSlot> stream() const = 0;

protected:
    LayerInput() = default;
    LayerInput(const LayerInput&) = delete;
    LayerInput& operator=(const LayerInput&) = delete;
};

// The rows as they are.
class StreamRows final : public LayerInput {
public:
    explicit StreamRows(const SavedSlot& source) : source_(source) {}
    at::Tensor forward(const Pass& pass) const override { return again(pass); }
    at::Tensor again(const Pass& pass) const override {
        return in_type(pass.context.branch_type, pass.saved[source_]);
    }
    void add_gradient(const BackwardPass& pass, const at::Tensor& dx) const override;
    void add_costs(StageCosts&, bool, RowsInBackward) const override {}
    std::vector<SavedSlot> stream() const override { return {source_}; }

private:
    SavedSlot source_;
};

// The rows normed.
class NormedRows : public LayerInput {
public:
    // keeps: the least policy that keeps what the norm's backward pass reads.
    NormedRows(std::shared_ptr<const Norm> norm, SavedLayout& slots, const SavedSlot& source,
               config::ActivationPolicy keeps);

    at::Tensor forward(const Pass& pass) const override;
    at::Tensor again(const Pass& pass) const override;
    void add_gradient(const BackwardPass& pass, const at::Tensor& dx) const override;
    void add_costs(StageCosts& costs, bool is_made_again, RowsInBackward rows) const override;
    std::vector<SavedSlot> stream() const override { return {source_}; }

    const Norm& norm() const { return *norm_; }
    const SavedSlot& source() const { return source_; }
    // Keeps what the policy asks for, and returns the rows.
    at::Tensor keep(const Pass& pass, ops::RmsNormed normed) const;

protected:
    bool has_rows(const Saved& saved) const { return saved.has(normed_); }
    bool keeps_rows(config::ActivationPolicy policy) const { return normed_.is_kept(policy); }
    // Of rows that the backward pass makes again by themselves.
    virtual void add_costs_of_rows(StageCosts& costs) const { norm_->add_costs_again(costs); }
    void norm_backward(const BackwardPass& pass, const at::Tensor& dx, bool makes_rows) const;

private:
    std::shared_ptr<const Norm> norm_;
    SavedSlot source_;
    SavedSlot normed_;       // [t, w]
    SavedSlot inverse_rms_;  // of an RMSNorm
};

// A fusion of the norm with the product behind it: the norm's backward pass writes the rows again
// over their gradient, and the product adds the gradient of its weight last.
class RowsMadeByBackward final : public NormedRows {
public:
    using NormedRows::NormedRows;
    void backward(const BackwardPass& pass, const Projection& product, const at::Tensor& dy,
                  BiasGradient of_bias) const override;

private:
    void add_costs_of_rows(StageCosts& costs) const override;
};

// A fusion of the addition before the layer with its norm: both in one pass over the rows. The
// layer before leaves its result in the place of the sum.
class SumNormed final : public LayerInput {
public:
    SumNormed(std::unique_ptr<const NormedRows> normed, const SavedSlot& unadded,
              const SavedSlot& stream, double factor)
        : normed_(std::move(normed)), unadded_(unadded), stream_(stream), factor_(factor) {}

    at::Tensor forward(const Pass& pass) const override;
    at::Tensor again(const Pass& pass) const override { return normed_->again(pass); }
    void add_gradient(const BackwardPass& pass, const at::Tensor& dx) const override {
        normed_->add_gradient(pass, dx);
    }
    void backward(const BackwardPass& pass, const Projection& product, const at::Tensor& dy,
                  BiasGradient of_bias) const override {
        normed_->backward(pass, product, dy, of_bias);
    }
    void add_costs(StageCosts& costs, bool is_made_again, RowsInBackward rows) const override;
    std::vector<SavedSlot> stream() const override;

private:
    std::unique_ptr<const NormedRows> normed_;
    SavedSlot unadded_;  // the result of the layer before
    SavedSlot stream_;   // the rows to which it is added
    double factor_;
};

}  // namespace ringshard::model
