#pragma once

#include "ringshard/ops/gemm.hpp"

// One file each; where a build lacks a library another file stands in for it and returns null.
namespace ringshard::ops {

Expected<std::unique_ptr<GemmBackend>> open_onednn_gemm();
std::unique_ptr<GemmBackend> make_mkl_gemm();
std::unique_ptr<GemmBackend> make_aten_gemm();

}  // namespace ringshard::ops
