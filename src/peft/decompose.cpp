#include "decompose.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/matmul.h>

#include <tuple>

#include "ringshard/base/random_values.hpp"

namespace ringshard::peft {

namespace {

// U [out, k], S [k], V^T [k, in].
using Svd = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::Tensor orthonormal(const at::Tensor& columns) {
    return std::get<0>(at::linalg_qr(columns, "reduced"));
}

// The method of Halko, Martinsson and Tropp (2011): a basis of the range of W is found by powers of
// W W^T on random columns, and W is decomposed in that basis.
Svd randomised_svd(const at::Tensor& weight, int64_t rank, int64_t iterations, uint64_t key) {
    const at::Tensor random = at::empty({weight.size(1), rank}, weight.options());
    fill_normal(key, 0, 1,
                {static_cast<float*>(random.data_ptr()), static_cast<size_t>(random.numel())});
    at::Tensor basis = orthonormal(at::matmul(weight, random));
    for (int64_t i = 0; i < iterations; ++i) {
        basis = orthonormal(at::matmul(weight.t(), basis));
        basis = orthonormal(at::matmul(weight, basis));
    }
    auto [u, s, v] = at::linalg_svd(at::matmul(basis.t(), weight), false);
    return {at::matmul(basis, u), s, v};
}

LowRankFactors pissa(const at::Tensor& weight, const model::AdapterSpec& adapter,
                     const config::AdapterInit& init, uint64_t key) {
    const auto [u, s, v] = init.iterations
                               ? randomised_svd(weight, adapter.rank, *init.iterations, key)
                               : at::linalg_svd(weight, false);
    const at::Tensor root = s.narrow(0, 0, adapter.rank).div(adapter.scaling).sqrt();
    return {v.narrow(0, 0, adapter.rank).mul(root.unsqueeze(1)).contiguous(),
            u.narrow(1, 0, adapter.rank).mul(root).contiguous()};
}

}  // namespace

LowRankFactors decompose(const at::Tensor& weight, const model::AdapterSpec& adapter,
                         const config::AdapterInit& init, uint64_t key) {
    if (init.kind == config::AdapterInit::Kind::pissa) return pissa(weight, adapter, init, key);
    const auto [q, r] = at::linalg_qr(weight, "reduced");
    return {r.narrow(0, 0, adapter.rank).contiguous(), q.narrow(1, 0, adapter.rank).contiguous()};
}

}  // namespace ringshard::peft
