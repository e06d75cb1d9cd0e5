#include "ring_attention.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

namespace ringshard::attention {

namespace {

// Keys and values on their way round the ring: [2, t, g, d]. A ring of one has nothing to pack.
class TravellingKeys {
public:
    TravellingKeys(const Heads& heads, comm::Communicator& ring) : ring_(ring), here_(heads) {
        if (ring_.size() == 1) return;
        packed_ = at::stack({heads.k, heads.v});
        arriving_ = at::empty_like(packed_);
        here_ = {heads.q, packed_[0], packed_[1], heads.form};
    }
    const Heads& here() const { return here_; }

    void start_next() { travel_ = ring_.shift({{packed_, arriving_}}); }
    void arrive() {
        travel_.wait();
        std::swap(packed_, arriving_);
        here_ = {here_.q, packed_[0], packed_[1], here_.form};
    }

private:
    comm::Communicator& ring_;
    Heads here_;
    at::Tensor packed_;
    at::Tensor arriving_;
    comm::Pending travel_;
};

}  // namespace

Partial ring_forward(const LocalAttention& local, const Heads& heads, const Plan& plan,
                     comm::Communicator& ring) {
    Partial partial = make_partial(heads, plan);
    if (plan.meets_once) {
        for (size_t step = 0; step < plan.steps.size(); ++step)
            local.attend(heads, plan.step(step), step == 0 ? Into::fresh : Into::sums, partial);
        return partial;
    }
    TravellingKeys keys(heads, ring);
    for (int step = 0; step < ring.size(); ++step) {
        const bool is_last = step + 1 == ring.size();
        if (!is_last) keys.start_next();
        local.attend(keys.here(), plan.step(static_cast<size_t>(step)), Into::sums, partial);
        if (!is_last) keys.arrive();
    }
    return partial;
}

namespace {

// The gradients where this rank has all keys.
void backward_of_all(const LocalAttention& local, const at::Tensor& d_out, const Heads& heads,
                     const Partial& whole, const Plan& plan, const HeadGradients& gradients) {
    if (plan.never_merges())
        return local.attend_backward(d_out, heads, whole, plan.step(0), Into::fresh, gradients);
    const auto fp32 = heads.q.options().dtype(at::kFloat);
    const HeadGradients sums{at::empty(heads.q.sizes(), fp32), at::empty(heads.k.sizes(), fp32),
                             at::empty(heads.v.sizes(), fp32)};
    for (size_t step = 0; step < plan.steps.size(); ++step)
        local.attend_backward(d_out, heads, whole, plan.step(step),
                              step == 0 ? Into::fresh : Into::sums, sums);
    gradients.dq.copy_(sums.dq);
    gradients.dk.copy_(sums.dk);
    gradients.dv.copy_(sums.dv);
}

}  // namespace

void ring_backward(const LocalAttention& local, const at::Tensor& d_out, const Heads& heads,
                   const Partial& whole, const Plan& plan, comm::Communicator& ring,
                   const HeadGradients& gradients) {
    if (plan.meets_once) return backward_of_all(local, d_out, heads, whole, plan, gradients);
    const auto fp32 = heads.q.options().dtype(at::kFloat);
    const at::Tensor dq = at::zeros(heads.q.sizes(), fp32);
    const auto no_gradient = [&] {
        return at::zeros({2, heads.k.size(0), heads.k.size(1), heads.k.size(2)}, fp32);
    };
    TravellingKeys keys(heads, ring);
    at::Tensor sum;       // of the keys that are here now, from the ranks they have passed
    at::Tensor arriving;  // the same of the keys that come next
    comm::Pending travel;
    for (int step = 0; step < ring.size(); ++step) {
        const bool is_last = step + 1 == ring.size();
        if (!is_last) keys.start_next();
        at::Tensor mine = no_gradient();
        local.attend_backward(d_out, keys.here(), whole, plan.step(static_cast<size_t>(step)),
                              Into::sums, {dq, mine[0], mine[1]});
        if (step > 0) {
            travel.wait();
            mine.add_(arriving);
        }
        sum = mine;
        arriving = at::empty_like(sum);
        travel = ring.shift({{sum, arriving}});
        if (!is_last) keys.arrive();
    }
    travel.wait();
    gradients.dq.copy_(dq);
    gradients.dk.copy_(arriving[0]);
    gradients.dv.copy_(arriving[1]);
}

}  // namespace ringshard::attention
