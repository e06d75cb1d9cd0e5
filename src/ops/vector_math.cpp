#include "ringshard/ops/vector_math.hpp"

#include <ATen/ops/acos.h>
#include <ATen/ops/asin.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/erfc.h>
#include <ATen/ops/erfinv.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log10.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/trunc.h>

namespace ringshard::ops {

void resolve_vector_math() {
    for (const auto type : {at::kFloat, at::kDouble}) {
        const at::Tensor value = at::full({1}, 0.5, type);
        for (const auto function :
             {at::acos, at::asin, at::atan, at::cos, at::erf, at::erfc, at::erfinv, at::exp,
              at::log, at::log10, at::log2, at::sin, at::sqrt, at::tan, at::tanh, at::trunc})
            function(value);
    }
}

}  // namespace ringshard::ops
