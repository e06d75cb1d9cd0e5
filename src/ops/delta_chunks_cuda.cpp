#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "backends.hpp"
#include "gpu/state_kernels.hpp"
#include "gpu/tensors.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/ops/device_copies.hpp"

namespace ringshard::ops::cuda {

using namespace gpu;

namespace {

// The first chunk of each stretch, and the end of the last.
at::Tensor chunk_begins(std::span<const ChunkLayout::Chunks> stretches, at::Device device) {
    std::vector<int64_t> begins{stretches.front().begin};
    for (const ChunkLayout::Chunks& chunks : stretches) begins.push_back(chunks.end);
    return ops::on_device(begins, device);
}

at::Tensor dense_copy(const at::Tensor& x) {
    at::Tensor copy = at::empty(x.sizes(), x.options());
    return copy.copy_(x);
}

}  // namespace

at::Tensor invert_unit_triangles(const at::Tensor& below_diagonal) {
    const at::Tensor from = below_diagonal.contiguous();
    at::Tensor inverse = at::empty_like(from);
    const int64_t size = from.size(-1);
    gpu::invert_unit_triangles(queue_of(from), {.below_diagonal = data<float>(from),
                                                .inverse = data<float>(inverse),
                                                .count = from.numel() / (size * size),
                                                .size = size});
    return inverse;
}

Walk delta_walk(const WalkSteps& steps) {
    if (const int64_t keys = steps.first.size(2); keys > most_keys_of_walk)
        throw Error(Failure{ExitCode::settings,
                            format_text("linear_key_head_dim = {} in config.json: a GPU takes {} "
                                        "at most; train with device cpu",
                                        keys, most_keys_of_walk)});
    const at::Tensor reader = steps.reader.contiguous();
    const at::Tensor writer = steps.writer.contiguous();
    const at::Tensor whole = steps.whole.contiguous();
    const at::Tensor values = steps.values.contiguous();
    const at::Tensor added = steps.added.defined() ? steps.added.contiguous() : steps.added;
    const at::Tensor begins = chunk_begins(steps.stretches, values.device());
    const auto sizes = steps.first.sizes();
    Walk all{at::empty({values.size(0), sizes[1], sizes[2], sizes[3]}, values.options()),
             at::empty_like(values), dense_copy(steps.first)};
    gpu::delta_walk(queue_of(values), {.reader = data<float>(reader),
                                       .writer = data<float>(writer),
                                       .whole = data<float>(whole),
                                       .values = data<float>(values),
                                       .added = added.defined() ? data<float>(added) : nullptr,
                                       .states = data<float>(all.states),
                                       .new_values = data<float>(all.values),
                                       .last = data<float>(all.last),
                                       .chunk_begins = data<int64_t>(begins),
                                       .stretches = sizes[0],
                                       .heads = sizes[1],
                                       .tokens = values.size(2),
                                       .dk = sizes[2],
                                       .columns = sizes[3],
                                       .decays = whole.size(2),
                                       .sign = steps.is_backwards ? 1.0F : -1.0F,
                                       .backwards = steps.is_backwards});
    return all;
}

StateWalk state_walk(const StateSteps& steps) {
    const at::Tensor whole = steps.whole.contiguous();
    const at::Tensor added = steps.added.contiguous();
    const at::Tensor begins = chunk_begins(steps.stretches, added.device());
    const auto sizes = steps.first.sizes();
    StateWalk all{at::empty(added.sizes(), added.options()), dense_copy(steps.first)};
    gpu::state_walk(queue_of(added), {.whole = data<float>(whole),
                                      .added = data<float>(added),
                                      .states = data<float>(all.states),
                                      .last = data<float>(all.last),
                                      .chunk_begins = data<int64_t>(begins),
                                      .stretches = sizes[0],
                                      .heads = sizes[1],
                                      .size = sizes[2] * sizes[3],
                                      .backwards = steps.is_backwards});
    return all;
}

}  // namespace ringshard::ops::cuda
