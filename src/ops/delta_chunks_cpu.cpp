#include <ATen/ops/baddbmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_solve_triangular.h>

#include "backends.hpp"

namespace ringshard::ops::cpu {

at::Tensor invert_unit_triangles(const at::Tensor& below_diagonal) {
    const at::Tensor one =
        at::eye(chunk_tokens, below_diagonal.options()).expand(below_diagonal.sizes());
    return at::linalg_solve_triangular(below_diagonal, one, false, true, true);
}

Walk delta_walk(const WalkSteps& steps) {
    const at::Tensor writer = steps.writer.transpose(2, 3);
    const int sign = steps.is_backwards ? 1 : -1;
    const auto sizes = steps.first.sizes();
    const auto options = steps.first.options();
    Walk all{at::empty({steps.values.size(0), sizes[1], sizes[2], sizes[3]}, options),
             at::empty(steps.values.sizes(), options), steps.first.clone()};
    for (size_t s = 0; s < steps.stretches.size(); ++s) {
        const auto& [begin, end] = steps.stretches[s];
        at::Tensor state = all.last[static_cast<int64_t>(s)];
        for (int64_t i = begin; i < end; ++i) {
            const int64_t chunk = steps.is_backwards ? begin + end - 1 - i : i;
            all.states[chunk].copy_(state);
            at::Tensor values = all.values[chunk];
            at::baddbmm_out(values, steps.values[chunk], steps.reader[chunk], state, 1, sign);
            state.mul_(steps.whole[chunk]);
            if (steps.added.defined()) state.add_(steps.added[chunk]);
            state.baddbmm_(writer[chunk], values, 1, -sign);
        }
    }
    return all;
}

StateWalk state_walk(const StateSteps& steps) {
    StateWalk all{at::empty(steps.added.sizes(), steps.added.options()), steps.first.clone()};
    for (size_t s = 0; s < steps.stretches.size(); ++s) {
        const auto& [begin, end] = steps.stretches[s];
        at::Tensor state = all.last[static_cast<int64_t>(s)];
        for (int64_t i = begin; i < end; ++i) {
            const int64_t chunk = steps.is_backwards ? begin + end - 1 - i : i;
            all.states[chunk].copy_(state);
            state.mul_(steps.whole[chunk]).add_(steps.added[chunk]);
        }
    }
    return all;
}

}  // namespace ringshard::ops::cpu
