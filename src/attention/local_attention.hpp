#pragma once

#include <ATen/core/Tensor.h>

#include <set>
#include <span>
#include <string>
#include <vector>

#include "ringshard/attention/kernels.hpp"
#include "ringshard/attention/plan.hpp"

// Attention between the queries and the keys that one rank holds at one moment, tile by tile.
// Letters: t tokens, h query heads, g key heads (h is a multiple of g), d head_dim.
namespace ringshard::attention {

struct Heads {
    at::Tensor q;  // [t, h, d]
    at::Tensor k;  // [t, g, d]
    at::Tensor v;
};

// What the queries have gathered so far from some of the keys.
struct Partial {
    at::Tensor out;  // [t, h, d]; fp32, or the type of q where queries meet keys once
    at::Tensor
        lse;  // [t, h] fp32: log of the sum of exponentials; minus infinity where nothing was seen
};

// Room for the result of a whole plan.
Partial make_partial(const Heads& heads, const Plan& plan);

// What tiles do to what stands there: they take the first and only word, or add theirs.
enum class Into { fresh, sums };

// Lets the queries see the keys of these tiles too.
void attend(const Heads& heads, std::span<const Tile> tiles, Into into, Partial& partial);

// The gradients of q, k and v: fp32 where they are sums, else the type of q.
struct HeadGradients {
    at::Tensor dq;  // [t, h, d]
    at::Tensor dk;  // [t, g, d]
    at::Tensor dv;
};
// The gradients of these tiles. `whole` is the result over all keys: with it, the tiles of a query
// need not know of each other.
void attend_backward(const at::Tensor& d_out, const Heads& heads, const Partial& whole,
                     std::span<const Tile> tiles, Into into, const HeadGradients& gradients,
                     Kernels kernels = Kernels::of_host);

// Which operators attend by a plan, by their names, where a device has a choice: on a GPU.
std::set<std::string> operators_of(const Plan& plan, at::ScalarType type, int64_t head_dim,
                                   at::Device device);

// The two that answer, by where the heads are.
namespace cpu {
decltype(attention::attend) attend;
decltype(attention::attend_backward) attend_backward;
}  // namespace cpu
namespace cuda {
decltype(attention::attend) attend;
decltype(attention::attend_backward) attend_backward;
decltype(attention::operators_of) operators_of;
}  // namespace cuda

}  // namespace ringshard::attention
