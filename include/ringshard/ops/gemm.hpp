#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <compare>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/ops/processor.hpp"

// The matrix products of linear layers on the CPU, and the libraries that make them.
namespace ringshard::ops {

// The three products of a linear layer y = x w^T: y, dx = dy w, and dw += dy^T x.
enum class GemmPass { forward, input_gradient, weight_gradient };
inline constexpr std::array gemm_passes{GemmPass::forward, GemmPass::input_gradient,
                                        GemmPass::weight_gradient};
std::string_view to_text(GemmPass pass);

// Products that go to the same backend, whatever their number of rows: a row's numbers must not
// depend on how the batch was split. The weight is [out, in].
struct GemmKind {
    GemmPass pass;
    at::ScalarType type;
    int64_t out;
    int64_t in;
    auto operator<=>(const GemmKind&) const = default;
};
// weight: the weight or its gradient. rows: of the type in which the layer computes.
GemmKind kind_of(GemmPass pass, const at::Tensor& weight, const at::Tensor& rows);

// The sizes of a product of [rows, terms] and [terms, columns].
struct GemmSizes {
    int64_t rows;
    int64_t columns;
    int64_t terms;
    bool has_bias = false;
};

// One library. Matrices are two-dimensional tensors of bf16 or fp32, rows or columns contiguous.
// For one thread at a time.
class GemmBackend {
public:
    virtual ~GemmBackend() = default;
    virtual std::string_view name() const = 0;  // "onednn", "mkl", "aten", "native"
    virtual std::string version() const = 0;
    // True if this processor has such products.
    virtual bool serves(at::ScalarType type) const = 0;
    // c = a b + bias, summed in fp32, rounded once. All of one type. bias [columns] or undefined.
    virtual void multiply(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                          const at::Tensor& bias) = 0;
    // c += a b, c fp32.
    virtual void add_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b) = 0;
    // c = a b, c fp32, whatever was there. MKL adds a product of bf16 to zeros faster than it
    // writes it, so the default does that.
    virtual void write_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b);
    // c += a b, all of one type, rounded once; by default of bf16, twice.
    virtual void accumulate(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b);
    // True if accumulate() makes no tensor of the size of c.
    virtual bool accumulates(at::ScalarType type) const { return type == at::kFloat; }
    // Bytes of tensors that a product takes while it runs, beside its matrices.
    virtual int64_t workspace_bytes(const GemmKind& kind, const GemmSizes& sizes) const = 0;
};

// The products of a GPU that cuBLASLt makes (src/ops/gpu_products.hpp).
class GpuProducts;

// The backends of this build, and which of them makes which products.
class Gemms {
public:
    // No backends: for models on other devices.
    Gemms() = default;
    // All of this build. A rule assigns products: by instruction set, vendor and type. On a
    // processor that cannot multiply bf16, every backend multiplies bf16 as fp32. Fails if a
    // library cannot be loaded.
    static Expected<Gemms> open(Processor processor = this_processor());
    Gemms(std::vector<std::unique_ptr<GemmBackend>> backends, Processor processor);

    const Processor& processor() const { return processor_; }
    std::span<const std::unique_ptr<GemmBackend>> backends() const { return backends_; }
    // Null if this build has no backend of that name.
    GemmBackend* find(std::string_view name) const;
    // Returns the backends among which a timing may choose: one that rounds weight gradients to
    // bf16 before it adds them only if no other supports this kind.
    std::vector<GemmBackend*> candidates(const GemmKind& kind) const;

    GemmBackend& backend_of(const GemmKind& kind) const;
    GemmBackend& by_rule(const GemmKind& kind) const;
    // In place of the rule.
    void choose(const GemmKind& kind, GemmBackend& backend) { chosen_[kind] = &backend; }
    void choose_for_all(GemmBackend& backend);

    // Of the current GPU; made when they are first asked for. In builds with CUDA alone.
    GpuProducts& on_gpu() const;

private:
    std::vector<std::unique_ptr<GemmBackend>> backends_;
    Processor processor_;
    // Chosen backends, and a cache of the rule's, since every product looks one up.
    mutable std::map<GemmKind, GemmBackend*> chosen_;
    GemmBackend* for_all_ = nullptr;
    mutable std::shared_ptr<GpuProducts> on_gpu_;
};

// The fastest backend of each kind, by running all candidates; a kind that is not in the answer
// keeps its rule: the weight is so small that calls cost more than products, or no candidate takes
// less than four fifths of the time of the rule's. Tens of milliseconds.
std::map<GemmKind, GemmBackend*> time_gemms(const Gemms& gemms, std::span<const GemmKind> kinds);

}  // namespace ringshard::ops
