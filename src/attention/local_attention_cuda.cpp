#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>

#include <map>
#include <mutex>

#include "local_attention.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/ops/device_copies.hpp"
#include "ringshard/ops/head_gradients.hpp"
#include "ringshard/ops/merge_attention.hpp"
#include "ringshard/ops/plain_attention.hpp"
#include "tile_pack.hpp"

// Every kernel takes and gives [n, t, heads, d] here, whatever order of dimensions its operator
// has.
namespace ringshard::attention {

// Where the tiles of a ragged pack begin, on the device; undefined for equal tiles.
struct TileStarts {
    at::Tensor q;
    at::Tensor k;
};

struct PreparedTiles {
    struct Call {
        TilePack pack;
        TileStarts starts;
    };
    std::vector<Call> calls;
};

namespace cuda {

namespace {

using ops::SeenKeys;

GpuTraits traits_of(at::Device device) {
    if (!device.is_cuda()) return {};  // a test, without a GPU
    return {.compute_capability = at::cuda::getDeviceProperties(device.index())->major,
            .must_be_deterministic = at::globalContext().deterministicAlgorithms()};
}

struct Input {
    at::Tensor q;  // [n, t, h, d]
    at::Tensor k;
    at::Tensor v;
    const TilePack& pack;
    ops::ScoreForm form{};
    TileStarts starts{};

    double scale() const { return form.scale_of(q.size(3)); }
    const ops::Band& band() const { return pack.group.first.band; }
    // FlashAttention-2 lets the last query see every key; cuDNN gets squares alone.
    bool is_causal() const {
        return band() == ops::causal || is_causal_at_the_end(pack.group.first);
    }
    bool has_window() const { return band() != ops::every_key && !is_causal(); }
    // The window of FlashAttention-2, which it counts on both sides of a token.
    std::optional<int64_t> window_left() const {
        return has_window() ? std::optional(band().back) : std::nullopt;
    }
    std::optional<int64_t> window_right() const {
        return has_window() ? std::optional(band().ahead) : std::nullopt;
    }
};

at::Tensor queries(const at::Tensor& rows, const TilePack& pack) {
    if (!pack.is_ragged()) return query_rows(rows, pack.group);
    return rows.narrow(0, pack.group.first.q, pack.num_q()).unsqueeze(0);
}

at::Tensor keys(const at::Tensor& rows, const TilePack& pack) {
    if (!pack.is_ragged()) return key_rows(rows, pack.group);
    return rows.narrow(0, pack.group.first.k, pack.num_k()).unsqueeze(0);
}

Input input_of(const Heads& heads, const TilePack& pack, const TileStarts& starts) {
    return {
        queries(heads.q, pack), keys(heads.k, pack), keys(heads.v, pack), pack, heads.form, starts};
}

HeadForm form_of(const Heads& heads) { return {heads.q.size(2), heads.form, heads.k.size(1)}; }

at::Tensor heads_first(const at::Tensor& rows) { return rows.transpose(1, 2); }

// The state of the random numbers of dropout, which no kernel has here. Every device has one for
// all calls; it is never freed, since LibTorch's allocator may end before a static object does.
const at::Tensor& no_seeds(at::Device device) {
    static std::mutex mutex;
    static auto& of_devices = *new std::map<at::DeviceIndex, at::Tensor>();
    const std::lock_guard lock(mutex);
    at::Tensor& seeds = of_devices[device.index()];
    if (!seeds.defined()) seeds = at::zeros({2}, at::TensorOptions(at::kLong).device(device));
    return seeds;
}

// --- cuDNN ------------------------------------------------------------------------------------

std::tuple<at::Tensor, at::Tensor> cudnn_result(const Input& input) {
    constexpr bool with_lse = true;
    const auto result = at::_scaled_dot_product_cudnn_attention(
        heads_first(input.q), heads_first(input.k), heads_first(input.v), std::nullopt, with_lse,
        0.0, input.is_causal(), false, input.scale());
    return {std::get<0>(result), std::get<1>(result)};
}

SeenKeys cudnn_forward(const Input& input) {
    auto [out, lse] = cudnn_result(input);
    if (lse.dim() == 4) lse = lse.squeeze(3);
    return {heads_first(out), heads_first(lse)};
}

// Releases of LibTorch differ in whether log-sum-exps are [n, h, t] or [n, h, t, 1]; the backward
// pass takes the form that the forward pass returns.
bool lse_has_a_dimension_more(at::Device device) {
    const at::Tensor one =
        at::zeros({1, 64, 1, 64}, at::TensorOptions(at::kBFloat16).device(device));
    const std::vector<Tile> tile{{0, 0, 64, 64, ops::every_key}};
    const TilePack pack = pack_tiles(tile).front();
    return std::get<1>(cudnn_result({one, one, one, pack})).dim() == 4;
}

bool has_one_more(at::Device device) {
    static const bool has = lse_has_a_dimension_more(device);
    return has;
}

HeadGradients cudnn_backward(const Input& input, const at::Tensor& d_out, const SeenKeys& whole) {
    at::Tensor lse = heads_first(whole.lse).contiguous();
    if (has_one_more(input.q.device())) lse = lse.unsqueeze(3);
    const at::Tensor no_seed = no_seeds(input.q.device())[0];
    const auto [dq, dk, dv] = at::_scaled_dot_product_cudnn_attention_backward(
        heads_first(d_out), heads_first(input.q), heads_first(input.k), heads_first(input.v),
        heads_first(whole.out), lse, no_seed, no_seed, {}, {}, {}, input.q.size(1), input.k.size(1),
        0.0, input.is_causal(), input.scale());
    return {heads_first(dq), heads_first(dk), heads_first(dv)};
}

// --- FlashAttention-2, which takes [n, t, heads, d], or tiles of all lengths as [t, heads, d] ----

std::optional<at::Tensor> if_any(const at::Tensor& tensor) {
    return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

SeenKeys flash_forward(const Input& input) {
    const bool is_ragged = input.pack.is_ragged();
    const auto rows = [&](const at::Tensor& all) { return is_ragged ? all.squeeze(0) : all; };
    const TileStarts& starts = input.starts;
    const auto result = at::_flash_attention_forward(
        rows(input.q), rows(input.k), rows(input.v), if_any(starts.q), if_any(starts.k),
        input.pack.longest_q, input.pack.longest_k, 0.0, input.is_causal(), false, input.scale(),
        input.window_left(), input.window_right());
    const at::Tensor& out = std::get<0>(result);
    const at::Tensor& lse = std::get<1>(result);  // [n, h, t], or [h, t]
    if (is_ragged) return {out.unsqueeze(0), lse.transpose(0, 1).unsqueeze(0)};
    return {out, heads_first(lse)};
}

HeadGradients flash_backward(const Input& input, const at::Tensor& d_out, const SeenKeys& whole) {
    const bool is_ragged = input.pack.is_ragged();
    const auto rows = [&](const at::Tensor& all) { return is_ragged ? all.squeeze(0) : all; };
    const TileStarts& starts = input.starts;
    const at::Tensor lse = rows(heads_first(whole.lse)).contiguous();
    const at::Tensor no_seed = no_seeds(input.q.device());
    const auto [dq, dk, dv] = at::_flash_attention_backward(
        rows(d_out), rows(input.q), rows(input.k), rows(input.v), rows(whole.out), lse, starts.q,
        starts.k, input.pack.longest_q, input.pack.longest_k, 0.0, input.is_causal(), no_seed,
        no_seed, input.scale(), input.window_left(), input.window_right());
    if (is_ragged) return {dq.unsqueeze(0), dk.unsqueeze(0), dv.unsqueeze(0)};
    return {dq, dk, dv};
}

// --- products of matrices ----------------------------------------------------------------------

// Calls `work` with each tile of a pack as one document, and a function that cuts its queries or
// keys out of rows of the pack.
template <class Work>
void for_tiles(const TilePack& pack, Work work) {
    if (!pack.is_ragged())
        return work([](const at::Tensor& r) { return r; }, [](const at::Tensor& r) { return r; });
    for (size_t tile = 0; tile + 1 < pack.q_starts.size(); ++tile) {
        const auto cut = [tile](const std::vector<int32_t>& starts) {
            return [begin = starts[tile], length = starts[tile + 1] - starts[tile]](
                       const at::Tensor& rows) { return rows.narrow(1, begin, length); };
        };
        work(cut(pack.q_starts), cut(pack.k_starts));
    }
}

SeenKeys products_forward(const Input& input) {
    SeenKeys seen{at::empty(input.q.sizes(), input.q.options()),
                  at::empty(input.q.sizes().slice(0, 3), input.q.options().dtype(at::kFloat))};
    for_tiles(input.pack, [&](auto queries_of, auto keys_of) {
        const SeenKeys part = ops::plain_attention(
            {queries_of(input.q), keys_of(input.k), keys_of(input.v), input.band(), input.form});
        queries_of(seen.out).copy_(part.out);
        queries_of(seen.lse).copy_(part.lse);
    });
    return seen;
}

HeadGradients products_backward(const Input& input, const at::Tensor& d_out,
                                const SeenKeys& whole) {
    const auto fp32 = input.q.options().dtype(at::kFloat);
    HeadGradients gradients{at::empty(input.q.sizes(), fp32), at::empty(input.k.sizes(), fp32),
                            at::empty(input.v.sizes(), fp32)};
    for_tiles(input.pack, [&](auto queries_of, auto keys_of) {
        const ops::PlainGradients part = ops::plain_attention_backward(
            {queries_of(input.q), keys_of(input.k), keys_of(input.v), input.band(), input.form},
            queries_of(d_out), {queries_of(whole.out), queries_of(whole.lse)});
        queries_of(gradients.dq).copy_(part.dq);
        keys_of(gradients.dk).copy_(part.dk);
        keys_of(gradients.dv).copy_(part.dv);
    });
    return gradients;
}

// -----------------------------------------------------------------------------------------------

// The name of attention operators in profiles.
constexpr const char* span_of_kernel = "attention kernel";

SeenKeys forward(AttentionKernel kernel, const Input& input) {
    RECORD_USER_SCOPE(span_of_kernel);
    switch (kernel) {
        case AttentionKernel::cudnn: return cudnn_forward(input);
        case AttentionKernel::flash: return flash_forward(input);
        case AttentionKernel::products: return products_forward(input);
    }
    RINGSHARD_CHECK(false);
}

HeadGradients backward(AttentionKernel kernel, const Input& input, const at::Tensor& d_out,
                       const SeenKeys& whole) {
    RECORD_USER_SCOPE(span_of_kernel);
    switch (kernel) {
        case AttentionKernel::cudnn: return cudnn_backward(input, d_out, whole);
        case AttentionKernel::flash: return flash_backward(input, d_out, whole);
        case AttentionKernel::products: return products_backward(input, d_out, whole);
    }
    RINGSHARD_CHECK(false);
}

void put(const at::Tensor& rows, const at::Tensor& more, Into into) {
    if (into == Into::sums)
        rows.add_(more);
    else
        rows.copy_(more);
}

// Returns the prepared calls of a step, or prepares them now.
std::shared_ptr<const PreparedTiles> calls_of(const StepTiles& step, at::Device device) {
    if (step.prepared == nullptr) return cuda::prepare(step.tiles, device);
    return {std::shared_ptr<void>(), step.prepared};  // owned by the plan
}

// Writes the rows of a pack whose queries and keys are the same tokens.
void finish_rows(const HeadGradients& gradients, const HeadGradients& more, const TilePack& pack) {
    const TileGroup& group = pack.group;
    RINGSHARD_CHECK(group.first.q == group.first.k && group.q_distance == group.k_distance);
    ops::put_head_gradients({more.dq, more.dk, more.dv, gradients.rows, group.first.q,
                             group.q_distance, gradients.finish.rope, gradients.finish.d_bias});
}

// Returns true if the pack covers all rows, in order.
bool has_all_rows(const TilePack& pack, int64_t rows) {
    if (pack.group.first.q != 0) return false;
    if (pack.is_ragged()) return pack.num_q() == rows;
    const int64_t length = pack.group.first.num_q;
    return pack.group.count * length == rows &&
           (pack.group.count == 1 || pack.group.q_distance == length);
}

}  // namespace

std::set<std::string> operators_of(const Plan& plan, at::ScalarType type, const HeadForm& form,
                                   at::Device device) {
    const GpuTraits gpu = traits_of(device);
    std::set<std::string> names;
    for (const std::vector<Tile>& tiles : plan.steps)
        for (const TilePack& pack : pack_tiles(tiles, cuts_from(gpu))) {
            names.insert(to_text(choose_kernel(pack, type, form, gpu)));
            if (pack.behind)
                names.insert(to_text(choose_kernel(call_behind(pack), type, form, gpu)));
        }
    return names;
}

void prepare_for_recording(at::Device device) {
    no_seeds(device);
    if (cuts_from(traits_of(device)) != no_cuts) has_one_more(device);  // cuDNN is used
}

std::shared_ptr<const PreparedTiles> prepare(std::span<const Tile> tiles, at::Device device) {
    return prepare(tiles, device, cuts_from(traits_of(device)));
}

std::shared_ptr<const PreparedTiles> prepare(std::span<const Tile> tiles, at::Device device,
                                             int64_t cuts_from) {
    auto prepared = std::make_shared<PreparedTiles>();
    for (TilePack& pack : pack_tiles(tiles, cuts_from)) {
        TileStarts starts;
        if (pack.is_ragged())
            starts = {ops::on_device(pack.q_starts, device), ops::on_device(pack.k_starts, device)};
        prepared->calls.push_back({std::move(pack), std::move(starts)});
    }
    return prepared;
}

namespace {

void attend_call(const Heads& heads, const TilePack& pack, const TileStarts& starts, Into into,
                 Partial& partial) {
    const AttentionKernel kernel =
        choose_kernel(pack, heads.q.scalar_type(), form_of(heads), traits_of(heads.q.device()));
    const SeenKeys seen = forward(kernel, input_of(heads, pack, starts));
    const SeenKeys place{queries(partial.out, pack), queries(partial.lse, pack)};
    if (into == Into::sums) return ops::merge_attention(place, seen);
    place.lse.copy_(seen.lse);
    if (has_all_rows(pack, partial.out.size(0)) && seen.out.is_contiguous() &&
        seen.out.scalar_type() == partial.out.scalar_type())
        partial.out = seen.out.flatten(0, 1);
    else
        place.out.copy_(seen.out);
}

HeadGradients gradients_of_call(const at::Tensor& d_out, const Heads& heads, const Partial& whole,
                                const TilePack& pack, const TileStarts& starts) {
    const at::ScalarType type = heads.q.scalar_type();
    const AttentionKernel kernel =
        choose_kernel(pack, type, form_of(heads), traits_of(heads.q.device()));
    return backward(kernel, input_of(heads, pack, starts), queries(d_out, pack),
                    {queries(whole.out, pack).to(type), queries(whole.lse, pack)});
}

void put_gradients(const HeadGradients& gradients, const HeadGradients& more, const TilePack& pack,
                   Into into) {
    if (gradients.rows.defined()) return finish_rows(gradients, more, pack);
    put(queries(gradients.dq, pack), more.dq, into);
    put(keys(gradients.dk, pack), more.dk, into);
    put(keys(gradients.dv, pack), more.dv, into);
}

}  // namespace

void attend(const Heads& heads, const StepTiles& step, Into into, Partial& partial) {
    const auto calls = calls_of(step, heads.q.device());
    for (const auto& [pack, starts] : calls->calls) {
        attend_call(heads, pack, starts, into, partial);
        if (pack.behind) attend_call(heads, call_behind(pack), {}, into, partial);
    }
}

void attend_backward(const at::Tensor& d_out, const Heads& heads, const Partial& whole,
                     const StepTiles& step, Into into, const HeadGradients& gradients) {
    const auto calls = calls_of(step, heads.q.device());
    for (const auto& [pack, starts] : calls->calls) {
        if (!pack.behind) {
            put_gradients(gradients, gradients_of_call(d_out, heads, whole, pack, starts), pack,
                          into);
            continue;
        }
        // Both calls see the first keys of the document.
        const HeadGradients behind = gradients_of_call(d_out, heads, whole, call_behind(pack), {});
        const HeadGradients first = gradients_of_call(d_out, heads, whole, pack, starts);
        const int64_t length = pack.longest_k;
        const int64_t rest = pack.behind->num_q;
        first.dk.add_(behind.dk.narrow(1, 0, length));
        first.dv.add_(behind.dv.narrow(1, 0, length));
        put_gradients(gradients, first, pack, into);
        put_gradients(
            gradients,
            {behind.dq, behind.dk.narrow(1, length, rest), behind.dv.narrow(1, length, rest)},
            tokens_behind(pack), into);
    }
}

}  // namespace cuda

}  // namespace ringshard::attention
