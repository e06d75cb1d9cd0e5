#include "ringshard/attention/sequence_latents.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "column_exchange.hpp"
#include "local_attention.hpp"
#include "ringshard/base/error.hpp"

namespace ringshard::attention {

namespace {

using Columns = ColumnExchange::Columns;

// Where the keys and the values of each Ulysses rank lie in expanded rows.
std::vector<std::vector<Columns>> columns_of_keys(const LatentSizes& sizes, int64_t ranks) {
    const int64_t keys = sizes.heads / ranks * sizes.key_dim;
    const int64_t values = sizes.heads / ranks * sizes.value_dim;
    std::vector<std::vector<Columns>> columns;
    for (int64_t rank = 0; rank < ranks; ++rank)
        columns.push_back(
            {{rank * keys, keys}, {sizes.heads * sizes.key_dim + rank * values, values}});
    return columns;
}

// The heads of one Ulysses rank, of all tokens of its ring rank. Attention knows heads of one
// width: the narrower ones of keys and values end in zeros.
class LatentHeads {
public:
    LatentHeads(const LatentSizes& sizes, comm::Communicator& ulysses,
                const ColumnExchange::Types& types)
        : sizes_(sizes),
          mine_(sizes.heads / ulysses.size()),
          width_(std::max(sizes.key_dim, sizes.value_dim)),
          exchange_(columns_of_keys(sizes, ulysses.size()), ulysses, types) {}

    // [t, heads dim] of this rank's tokens -> [group's t, its heads, width]
    at::Tensor in(const at::Tensor& rows, int64_t dim) const {
        return padded(exchange_.parts_in(rows), dim);
    }
    // Back: [group's t, its heads, width] -> [t, heads dim]. Flattened, one narrow head is a view.
    at::Tensor out(const at::Tensor& heads, int64_t dim) const {
        return exchange_.parts_out(heads.narrow(2, 0, dim).flatten(1).contiguous());
    }
    Heads heads(const at::Tensor& queries, const at::Tensor& expanded,
                const ops::ScoreForm& form) const {
        const at::Tensor rows = exchange_.in(expanded);
        const int64_t keys = mine_ * sizes_.key_dim;
        return {queries, padded(rows.narrow(1, 0, keys), sizes_.key_dim),
                padded(rows.narrow(1, keys, mine_ * sizes_.value_dim), sizes_.value_dim), form};
    }
    // The gradient of expanded rows, of the type of the computation.
    at::Tensor expanded_gradient(const at::Tensor& dk, const at::Tensor& dv) const {
        const at::Tensor rows = at::cat({dk.narrow(2, 0, sizes_.key_dim).flatten(1),
                                         dv.narrow(2, 0, sizes_.value_dim).flatten(1)},
                                        1);
        return exchange_.gradient_out(rows.to(exchange_.exchange_type()),
                                      sizes_.heads * (sizes_.key_dim + sizes_.value_dim));
    }

private:
    at::Tensor padded(const at::Tensor& rows, int64_t dim) const {
        const at::Tensor heads = rows.unflatten(1, {mine_, dim});
        return dim == width_ ? heads : at::constant_pad_nd(heads, {0, width_ - dim});
    }

    LatentSizes sizes_;
    int64_t mine_;
    int64_t width_;
    ColumnExchange exchange_;
};

// The rank whose latents a plan meets at a step.
int64_t met_at(int step, const comm::Communicator& ring) {
    return (ring.rank() + ring.size() - step) % ring.size();
}

// Calls `work` with the tiles of a step of the ring, and where they go: those of the second step of
// a rank that holds all of the list, too.
template <class Work>
void for_step_tiles(const Plan& plan, int step, Work work) {
    if (!plan.meets_once) return work(plan.step(static_cast<size_t>(step)), Into::sums);
    for (size_t own = 0; own < plan.steps.size(); ++own)
        work(plan.step(own), own == 0 ? Into::fresh : Into::sums);
}

// Calls `work` with every step and its latents, while those of the next rank are on their way.
template <class Work>
void for_travelling(const at::Tensor& latents, comm::Communicator& ring, Work work) {
    at::Tensor here = latents;
    for (int step = 0; step < ring.size(); ++step) {
        const bool is_last = step + 1 == ring.size();
        const at::Tensor next = is_last ? at::Tensor() : at::empty_like(latents);
        comm::Pending travel;
        if (!is_last) travel = ring.shift({{here, next}});
        work(step, here);
        if (is_last) return;
        travel.wait();
        here = next;
    }
}

// The same where each rank gathers the latents of all at once.
template <class Work>
void for_gathered(const at::Tensor& latents, comm::Communicator& ring, Work work) {
    const at::Tensor all =
        at::empty({ring.size(), latents.size(0), latents.size(1)}, latents.options());
    all[ring.rank()].copy_(latents);
    comm::Pending arriving = ring.all_gather(all, all[ring.rank()]);
    for (int step = 0; step < ring.size(); ++step) {
        if (step == 1) arriving.wait();
        work(step, all[met_at(step, ring)]);
    }
}

template <class Work>
void for_latents(const at::Tensor& latents, comm::Communicator& ring, bool gathers, Work work) {
    if (gathers)
        for_gathered(latents, ring, work);
    else
        for_travelling(latents, ring, work);
}

// Brings the gradients of latents, fp32, to the ranks that hold these.
class LatentGradients {
public:
    LatentGradients(const at::Tensor& latents, comm::Communicator& ring, bool gathers)
        : ring_(ring) {
        if (gathers)
            all_ = at::zeros({ring.size(), latents.size(0), latents.size(1)},
                             latents.options().dtype(at::kFloat));
    }

    void add(int step, at::Tensor gradient) {
        if (ring_.size() == 1) {
            sum_ = std::move(gradient);
        } else if (all_.defined()) {
            all_[met_at(step, ring_)].copy_(gradient);
        } else {
            if (step > 0) {
                travel_.wait();
                gradient.add_(arriving_);
            }
            sum_ = std::move(gradient);
            arriving_ = at::empty_like(sum_);
            travel_ = ring_.shift({{sum_, arriving_}});
        }
    }
    at::Tensor finish() {
        if (ring_.size() == 1) return sum_;
        if (!all_.defined()) {
            travel_.wait();
            return arriving_;
        }
        at::Tensor mine = at::empty(all_.sizes().slice(1), all_.options());
        ring_.reduce_scatter(mine, all_).wait();
        return mine;
    }

private:
    comm::Communicator& ring_;
    at::Tensor all_;  // of all ranks, where each has gathered their latents
    at::Tensor sum_;  // of the latents that are here now, from the ranks that they have passed
    at::Tensor arriving_;
    comm::Pending travel_;
};

}  // namespace

SequenceLatents::SequenceLatents(const LatentSizes& sizes, comm::Communicator& ring,
                                 comm::Communicator& ulysses,
                                 const ContextParallelOptions& context_parallel,
                                 c10::DeviceType planned, const ops::ScoreForm& form)
    : sizes_(sizes),
      ring_(ring),
      ulysses_(ulysses),
      gathers_(context_parallel.keys == ContextParallelOptions::Keys::all_gather &&
               ring.size() > 1),
      exchange_type_(context_parallel.heads),
      planned_(planned),
      form_{form.scale_of(sizes.key_dim), form.cap},
      attention_(sizes.as_heads(), ring, ulysses, context_parallel, planned, form_) {}

SequenceAttention::Result SequenceLatents::forward(const at::Tensor& queries,
                                                   const at::Tensor& latents,
                                                   const LatentExpansion& expansion,
                                                   const Plan& plan) const {
    RINGSHARD_CHECK(!plan.exchange, "a window over latents");
    const LatentHeads exchange(sizes_, ulysses_, {queries.scalar_type(), exchange_type_});
    const at::Tensor q = exchange.in(queries, sizes_.key_dim);
    const LocalAttention local = local_attention_of(queries, planned_);
    Partial partial = make_partial({q, q, q, form_}, plan);
    for_latents(latents, ring_, gathers_, [&](int step, const at::Tensor& met) {
        const Heads heads = exchange.heads(q, expansion.forward(met), form_);
        for_step_tiles(plan, step, [&](const StepTiles& tiles, Into into) {
            local.attend(heads, tiles, into, partial);
        });
    });
    return {exchange.out(partial.out.to(queries.scalar_type()), sizes_.value_dim), partial.lse};
}

SequenceLatents::Gradient SequenceLatents::backward(const at::Tensor& d_out,
                                                    const at::Tensor& queries,
                                                    const at::Tensor& latents,
                                                    const SequenceAttention::Result& result,
                                                    const LatentExpansion& expansion,
                                                    const Plan& plan) const {
    const LatentHeads exchange(sizes_, ulysses_, {queries.scalar_type(), exchange_type_});
    const at::Tensor q = exchange.in(queries, sizes_.key_dim);
    const at::Tensor d_heads = exchange.in(d_out, sizes_.value_dim);
    const Partial whole{exchange.in(result.out, sizes_.value_dim), result.lse};
    const LocalAttention local = local_attention_of(queries, planned_);
    const auto options =
        q.options().dtype(plan.never_merges() ? queries.scalar_type() : at::kFloat);
    const auto room = [&] {
        return plan.meets_once ? at::empty(q.sizes(), options) : at::zeros(q.sizes(), options);
    };
    const at::Tensor dq = room();
    LatentGradients gradients(latents, ring_, gathers_);
    for_latents(latents, ring_, gathers_, [&](int step, const at::Tensor& met) {
        const at::Tensor dk = room();
        const at::Tensor dv = room();
        const Heads heads = exchange.heads(q, expansion.forward(met), form_);
        for_step_tiles(plan, step, [&](const StepTiles& tiles, Into into) {
            local.attend_backward(d_heads, heads, whole, tiles, into, {dq, dk, dv});
        });
        gradients.add(step,
                      expansion.backward(exchange.expanded_gradient(dk, dv), met).to(at::kFloat));
    });
    return {exchange.out(dq.to(queries.scalar_type()), sizes_.key_dim),
            gradients.finish().to(latents.scalar_type())};
}

at::Tensor SequenceLatents::attend_cached(const at::Tensor& queries, const at::Tensor& latents,
                                          const LatentExpansion& expansion, const Plan& plan,
                                          const KeyValueCache& cache) const {
    const int64_t width = sizes_.as_heads().head_dim;
    const int64_t keys = sizes_.heads * sizes_.key_dim;
    const at::Tensor expanded = expansion.forward(latents);
    const auto padded = [&](const at::Tensor& rows, int64_t dim) {
        return at::constant_pad_nd(rows.unflatten(1, {sizes_.heads, dim}), {0, width - dim})
            .flatten(1);
    };
    const at::Tensor values = expanded.narrow(1, keys, sizes_.heads * sizes_.value_dim);
    const at::Tensor qkv = at::cat(
        {padded(queries, sizes_.key_dim), padded(expanded.narrow(1, 0, keys), sizes_.key_dim),
         padded(values, sizes_.value_dim)},
        1);
    return attention_.attend_cached(qkv, plan, cache)
        .unflatten(1, {sizes_.heads, width})
        .narrow(2, 0, sizes_.value_dim)
        .flatten(1)
        .contiguous();
}

}  // namespace ringshard::attention
