#include "sinks.hpp"

#include <ATen/ops/exp.h>
#include <ATen/ops/logaddexp.h>

namespace ringshard::attention {

void add_sinks(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& sinks) {
    const at::Tensor with_sinks = at::logaddexp(lse, sinks.to(lse.scalar_type()));
    out.mul_(at::exp(lse - with_sinks).unsqueeze(-1));
    lse.copy_(with_sinks);
}

void add_sink_gradient(const at::Tensor& gradient, const at::Tensor& d_out, const at::Tensor& out,
                       const at::Tensor& lse, const at::Tensor& sinks) {
    const at::Tensor shares = at::exp(sinks.to(lse.scalar_type()) - lse);
    gradient.sub_((shares * (d_out.to(at::kFloat) * out).sum(-1)).sum(0));
}

}  // namespace ringshard::attention
