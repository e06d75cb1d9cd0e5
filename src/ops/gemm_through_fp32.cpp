#include <ATen/ops/empty.h>

#include <algorithm>

#include "gemm_backends.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::ops {

namespace {

// Sides of a block: three blocks of fp32 take 48 MiB, and converting the numbers of one costs less
// than a hundredth of multiplying them.
constexpr int64_t longest_converted_side = 2048;

// A stretch of one dimension.
struct SideRange {
    int64_t begin;
    int64_t count;
};

std::vector<SideRange> stretches_of(int64_t size) {
    std::vector<SideRange> stretches;
    for (int64_t begin = 0; begin < size; begin += longest_converted_side)
        stretches.push_back({begin, std::min(longest_converted_side, size - begin)});
    return stretches;
}

at::Tensor block_of(const at::Tensor& matrix, SideRange rows, SideRange columns) {
    return matrix.narrow(0, rows.begin, rows.count).narrow(1, columns.begin, columns.count);
}

at::Tensor wide(const at::Tensor& tensor) { return tensor.to(at::kFloat); }

class ThroughFp32 final : public GemmBackend {
public:
    explicit ThroughFp32(std::unique_ptr<GemmBackend> inner) : inner_(std::move(inner)) {}

    std::string_view name() const override { return inner_->name(); }
    std::string version() const override {
        return format_text("{} (bf16 through fp32)", inner_->version());
    }
    bool serves(at::ScalarType) const override { return inner_->serves(at::kFloat); }

    void multiply(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                  const at::Tensor& bias) override {
        if (c.scalar_type() == at::kFloat) return inner_->multiply(c, a, b, bias);
        for (const SideRange rows : stretches_of(c.size(0)))
            for (const SideRange columns : stretches_of(c.size(1))) {
                const at::Tensor sums =
                    at::empty({rows.count, columns.count}, c.options().dtype(at::kFloat));
                for (const SideRange terms : stretches_of(a.size(1))) {
                    const at::Tensor left = wide(block_of(a, rows, terms));
                    const at::Tensor right = wide(block_of(b, terms, columns));
                    if (terms.begin > 0)
                        inner_->add_product(sums, left, right);
                    else
                        inner_->multiply(sums, left, right, bias_of(bias, columns));
                }
                block_of(c, rows, columns).copy_(sums);
            }
    }

    void add_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b) override {
        if (a.scalar_type() == at::kFloat) return inner_->add_product(c, a, b);
        for (const SideRange rows : stretches_of(c.size(0)))
            for (const SideRange columns : stretches_of(c.size(1)))
                for (const SideRange terms : stretches_of(a.size(1)))
                    inner_->add_product(block_of(c, rows, columns), wide(block_of(a, rows, terms)),
                                        wide(block_of(b, terms, columns)));
    }

    // A block of each converted matrix, and of the sums where they are not added to.
    int64_t workspace_bytes(const GemmKind& kind, const GemmSizes& sizes) const override {
        GemmKind inner = kind;
        inner.type = at::kFloat;
        if (kind.type == at::kFloat) return inner_->workspace_bytes(inner, sizes);
        const GemmSizes block{std::min(sizes.rows, longest_converted_side),
                              std::min(sizes.columns, longest_converted_side),
                              std::min(sizes.terms, longest_converted_side), sizes.has_bias};
        int64_t numbers = block.rows * block.terms + block.terms * block.columns;
        if (kind.pass != GemmPass::weight_gradient) numbers += block.rows * block.columns;
        if (block.has_bias) numbers += block.columns;
        return numbers * static_cast<int64_t>(sizeof(float)) +
               inner_->workspace_bytes(inner, block);
    }

private:
    static at::Tensor bias_of(const at::Tensor& bias, SideRange columns) {
        return bias.defined() ? wide(bias.narrow(0, columns.begin, columns.count)) : at::Tensor();
    }

    std::unique_ptr<GemmBackend> inner_;
};

}  // namespace

std::unique_ptr<GemmBackend> gemm_through_fp32(std::unique_ptr<GemmBackend> inner) {
    return std::make_unique<ThroughFp32>(std::move(inner));
}

}  // namespace ringshard::ops
