#pragma once

#include <memory>

#include "norm.hpp"
#include "part.hpp"
#include "stage_costs.hpp"

namespace ringshard::model {

// Returns the gradient of the rows x before a norm, from that of the normed rows.
at::Tensor norm_gradient(const Norm& norm, const BackwardPass& pass, const at::Tensor& dy,
                         const at::Tensor& x);

// The stage that makes the output of a layer of the rows of its part.
class Output {
public:
    explicit Output(const Part& part) : part_(part) {}
    virtual ~Output() = default;
    Output(const Output&) = delete;
    Output& operator=(const Output&) = delete;

    virtual at::Tensor forward(const Pass& pass, at::Tensor rows) const {
        return part_.output(pass, std::move(rows));
    }
    // Returns the gradient of the part's output, from that of the layer's.
    virtual at::Tensor backward(const BackwardPass&, const at::Tensor& dy) const { return dy; }
    // Says if backward() reads the part's output, and if that is not there; then make_rows() makes
    // it again.
    virtual bool reads_rows() const { return false; }
    virtual bool lacks_rows(const Saved&) const { return false; }
    virtual void make_rows(const Pass&, at::Tensor) const {}
    virtual void add_costs(StageCosts&, bool) const {}
    // Linear layers beside those of the part.
    virtual std::vector<const Projection*> projections() const { return {}; }

    const Part& part() const { return part_; }

private:
    const Part& part_;
};

// With a norm behind it.
class NormedOutput final : public Output {
public:
    NormedOutput(const Part& part, std::shared_ptr<const Norm> norm, SavedLayout& slots,
                 config::ActivationPolicy keeps)
        : Output(part), norm_(std::move(norm)), rows_(slots.add(keeps)) {}

    at::Tensor forward(const Pass& pass, at::Tensor rows) const override;
    at::Tensor backward(const BackwardPass& pass, const at::Tensor& dy) const override;
    bool reads_rows() const override { return true; }
    bool lacks_rows(const Saved& saved) const override { return !saved.has(rows_); }
    void make_rows(const Pass& pass, at::Tensor rows) const override;
    void add_costs(StageCosts& costs, bool is_made_again) const override;

private:
    std::shared_ptr<const Norm> norm_;
    SavedSlot rows_;  // [t, w], before the norm
};

// The stage with which a layer ends: its output joins the residual stream.
class Addition {
public:
    virtual ~Addition() = default;
    Addition(const Addition&) = delete;
    Addition& operator=(const Addition&) = delete;

    // Returns the sum of the stream and the output that is made of the part's rows: in `into`,
    // unless that is undefined.
    virtual at::Tensor forward(const Pass& pass, at::Tensor rows, const at::Tensor& into) const = 0;
    // Returns the gradient of the part's output.
    at::Tensor backward(const BackwardPass& pass) const;
    virtual void add_costs(StageCosts& costs, bool is_made_again) const = 0;

    const Output& output() const { return *output_; }

protected:
    Addition(std::unique_ptr<const Output> output, const SavedSlot& stream, double factor)
        : output_(std::move(output)), stream_(stream), factor_(factor) {}

    std::unique_ptr<const Output> output_;
    SavedSlot stream_;
    double factor_;  // of the output
};

// A pass over the rows adds.
class AdditionOfRows final : public Addition {
public:
    AdditionOfRows(std::unique_ptr<const Output> output, const SavedSlot& stream, double factor,
                   int64_t width)
        : Addition(std::move(output), stream, factor), width_(static_cast<double>(width)) {}
    at::Tensor forward(const Pass& pass, at::Tensor rows, const at::Tensor& into) const override;
    void add_costs(StageCosts& costs, bool is_made_again) const override;

private:
    double width_;
};

// A half of a fusion: the norm of the next layer adds the output as it reads it (SumNormed).
class AdditionByNextNorm final : public Addition {
public:
    AdditionByNextNorm(std::unique_ptr<const Output> output, const SavedSlot& unadded,
                       double factor)
        : Addition(std::move(output), unadded, factor) {}
    at::Tensor forward(const Pass& pass, at::Tensor rows, const at::Tensor& into) const override;
    void add_costs(StageCosts& costs, bool is_made_again) const override {
        output_->add_costs(costs, is_made_again);
    }
};

// A fusion of the output with the addition: the part's last product adds.
class AdditionByProduct final : public Addition {
public:
    AdditionByProduct(std::unique_ptr<const Output> output, const SavedSlot& stream)
        : Addition(std::move(output), stream, 1) {}
    at::Tensor forward(const Pass& pass, at::Tensor rows, const at::Tensor& into) const override;
    void add_costs(StageCosts& costs, bool is_made_again) const override;
};

}  // namespace ringshard::model
