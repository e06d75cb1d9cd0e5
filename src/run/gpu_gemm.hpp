#pragma once

#include "ringshard/ops/product_kernels.hpp"
#include "ringshard/run/cpu_gemm.hpp"

namespace ringshard::run {

// The products of blocks and head in a micro-batch of the longest rows, as a rank computes them.
std::vector<ops::LayerProduct> products_of_step(const config::Config& config,
                                                const model::ModelSpec& spec,
                                                const mesh::MeshShape& shape, double device_memory);

// Takes a kernel for each product: that of the table of a former run, which rank 0 has, if it is of
// this GPU and library; else the fastest, by the times of the slowest rank. Returns the table of
// what was taken, on all ranks. Collective over the world.
GemmTable choose_kernels(const comm::Group& world, ops::ProductKernels& kernels,
                         const std::vector<ops::LayerProduct>& products, const GemmTable& former);

// Lets a run in bf16 on GPUs choose, unless `full_determinism` wants the library's own choice. Then
// `gemms` has the record for run.json. Collective over the world.
void choose_gpu_kernels(const CommandContext& context, const Placement& placement,
                        const model::ModelSpec& spec, ChosenGemms& gemms, double device_memory);

}  // namespace ringshard::run
