#pragma once

#include <ATen/core/Tensor.h>

#include <set>
#include <span>
#include <string>
#include <vector>

#include "ringshard/attention/prepare_for_recording.hpp"
#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/ops/block_attention.hpp"
#include "tile_group.hpp"
#include "tile_pack.hpp"

// Attention between the queries and the keys that one rank holds at one moment, tile by tile.
// Dimensions: t tokens, h query heads, g key heads (h is a multiple of g), d head_dim.
namespace ringshard::attention {

struct Heads {
    at::Tensor q;  // [t, h, d]
    at::Tensor k;  // [t, g, d]
    at::Tensor v;
    ops::ScoreForm form{};
};

// The partial result of the queries over some of the keys.
struct Partial {
    at::Tensor out;  // [t, h, d]; fp32, or the type of q where queries meet keys once
    at::Tensor
        lse;  // [t, h] fp32: log of the sum of exponentials; minus infinity where nothing was seen
};

// Room for the result of a whole plan.
Partial make_partial(const Heads& heads, const Plan& plan);

// A tile overwrites the destination, or adds to it.
enum class Into { fresh, sums };

// The gradients of q, k and v: fp32 where they are sums, else the type of q.
struct HeadGradients {
    at::Tensor dq;  // [t, h, d]
    at::Tensor dk;  // [t, g, d]
    at::Tensor dv;
    // The rows of which all three are views, where a backend finishes them as it writes them.
    at::Tensor rows{};
    GradientFinish finish{};
};

// Lets the queries see the keys of these tiles too.
using Attend = void(const Heads& heads, const StepTiles& step, Into into, Partial& partial);

// The gradients of these tiles. `whole` is the result over all keys: with it, the tiles of a query
// need not know of each other.
using AttendBackward = void(const at::Tensor& d_out, const Heads& heads, const Partial& whole,
                            const StepTiles& step, Into into, const HeadGradients& gradients);

// The functions that compute attention on a device.
struct LocalAttention {
    Attend* attend;
    AttendBackward* attend_backward;
    bool finishes_rows = false;  // HeadGradients::rows, where tiles overwrite their destination
};
// Returns the functions for heads on this device. For meta tensors they allocate the memory that
// the operators of a device of the type `planned` do, and compute nothing.
LocalAttention local_attention_of(const at::Tensor& heads,
                                  c10::DeviceType planned = c10::DeviceType::CPU);

// Returns the rows of the heads that the tiles of a group use.
ops::AttentionInput input_of(const Heads& heads, const TileGroup& group);

// Names the operators that compute attention for a plan; empty on a CPU, which has no choice.
std::set<std::string> operators_of(const Plan& plan, at::ScalarType type, const HeadForm& form,
                                   at::Device device);

namespace cpu {
Attend attend;
AttendBackward attend_backward;
// In which type LibTorch's operator goes back: its bf16 is many times slower than fp32 on short
// rows.
at::ScalarType type_of_backward(const Heads& heads, const TileGroup& group);
}  // namespace cpu
namespace cuda {
Attend attend;
AttendBackward attend_backward;
decltype(attention::operators_of) operators_of;
decltype(attention::prepare_for_recording) prepare_for_recording;
std::shared_ptr<const PreparedTiles> prepare(std::span<const Tile> tiles, at::Device device);
// Cuts documents from this length on, and not from that of the device on.
std::shared_ptr<const PreparedTiles> prepare(std::span<const Tile> tiles, at::Device device,
                                             int64_t cuts_from);
}  // namespace cuda
namespace meta {
Attend attend;
// Returns the workspace of the backward pass on a GPU, in FlashAttention-2 and in cuDNN alike: the
// gradient of the queries is summed in fp32, with a number for each row and head beside it; where
// query heads share a key head, the gradients of keys and values are made for every query head and
// added up after that.
int64_t workspace_of_cuda_backward(const ops::AttentionInput& input);
AttendBackward attend_backward_of_cpu;
AttendBackward attend_backward_of_cuda;
}  // namespace meta

}  // namespace ringshard::attention
