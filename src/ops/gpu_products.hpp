#pragma once

#include <map>
#include <memory>

#include "product_shape.hpp"

namespace ringshard::ops {

// Products by cuBLASLt, on the current GPU and stream: for addends that lie apart from the result,
// which at::addmm would copy first. Sums are fp32, and rounded once. Kernels are chosen when a
// shape is first met.
class GpuProducts {
public:
    GpuProducts();
    ~GpuProducts();
    GpuProducts(const GpuProducts&) = delete;
    GpuProducts& operator=(const GpuProducts&) = delete;

    void multiply(const GpuProduct& product);

private:
    class Plan;
    Plan& plan_of(const ProductShape& shape);

    std::map<ProductShape, std::unique_ptr<Plan>> plans_;
};

}  // namespace ringshard::ops
