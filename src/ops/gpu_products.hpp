#pragma once

#include <cublasLt.h>

#include <map>
#include <memory>
#include <vector>

#include "product_shape.hpp"

namespace ringshard::ops {

// Products by cuBLASLt, on the current GPU and stream: for addends that lie apart from the result,
// which at::addmm would copy first, and with kernels that a timing chose. Sums are fp32, and
// rounded once. cuBLASLt's own choice of a kernel counts for shapes for which none was taken.
class GpuProducts {
public:
    GpuProducts();
    ~GpuProducts();
    GpuProducts(const GpuProducts&) = delete;
    GpuProducts& operator=(const GpuProducts&) = delete;

    void multiply(const GpuProduct& product);
    // The product of each group of so many rows at least, all by one kernel: a row has the same
    // bits in whatever company, and no kernel is looked for where the counts are new.
    void multiply_groups(const GroupedProduct& product, const std::vector<int64_t>& counts,
                         int64_t least_rows = 1);

    // Kernels that can make this product, numbered from cuBLASLt's own choice.
    int64_t count_kernels(const GpuProduct& product);
    void multiply_by(const GpuProduct& product, int64_t kernel);
    // Uses this kernel from now on for the product, with any addend, and for products with up
    // to an eighth fewer tokens: packed rows are seldom full.
    void take(const GpuProduct& product, int64_t kernel);
    bool has_taken(const GpuProduct& product) const;

private:
    class Plan;
    Plan& plan_of(const ProductShape& shape);
    const cublasLtMatmulAlgo_t* taken_for(const ProductShape& shape) const;

    std::map<ProductShape, std::unique_ptr<Plan>> plans_;
    // The chosen kernel of a product: by its shape without the tokens, then by the tokens.
    std::map<ProductShape, std::map<int64_t, cublasLtMatmulAlgo_t>> taken_;
};

}  // namespace ringshard::ops
