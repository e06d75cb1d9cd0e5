#include "gathered_attention.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <vector>

namespace ringshard::attention {

namespace {

// The keys and the values of every rank: [ring, 2, t, g, d].
std::vector<int64_t> sizes_of_all(const Heads& heads, const comm::Communicator& ring) {
    return {ring.size(), 2, heads.k.size(0), heads.k.size(1), heads.k.size(2)};
}

// The rank whose keys the plan meets at a step.
int64_t rank_at(size_t step, const comm::Communicator& ring) {
    return (ring.rank() + ring.size() - static_cast<int64_t>(step)) % ring.size();
}

// Calls `work` with every step and its keys: this rank's own at step 0, while the others' are on
// their way.
template <class Work>
void for_steps(const Heads& heads, const Plan& plan, comm::Communicator& ring, Work work) {
    const at::Tensor all = at::empty(sizes_of_all(heads, ring), heads.k.options());
    const at::Tensor own = all[ring.rank()];
    own[0].copy_(heads.k);
    own[1].copy_(heads.v);
    comm::Pending arriving = ring.all_gather(all, own);
    for (size_t step = 0; step < plan.steps.size(); ++step) {
        if (step == 1) arriving.wait();
        const at::Tensor met = all[rank_at(step, ring)];
        work(step, Heads{heads.q, met[0], met[1], heads.form});
    }
}

}  // namespace

Partial gathered_forward(const LocalAttention& local, const Heads& heads, const Plan& plan,
                         comm::Communicator& ring) {
    Partial partial = make_partial(heads, plan);
    for_steps(heads, plan, ring, [&](size_t step, const Heads& met) {
        local.attend(met, plan.step(step), Into::sums, partial);
    });
    return partial;
}

void gathered_backward(const LocalAttention& local, const at::Tensor& d_out, const Heads& heads,
                       const Partial& whole, const Plan& plan, comm::Communicator& ring,
                       const HeadGradients& gradients) {
    const auto fp32 = heads.q.options().dtype(at::kFloat);
    const at::Tensor dq = at::zeros(heads.q.sizes(), fp32);
    const at::Tensor d_all = at::zeros(sizes_of_all(heads, ring), fp32);
    for_steps(heads, plan, ring, [&](size_t step, const Heads& met) {
        const at::Tensor d_met = d_all[rank_at(step, ring)];
        local.attend_backward(d_out, met, whole, plan.step(step), Into::sums,
                              {dq, d_met[0], d_met[1]});
    });
    const at::Tensor mine = at::empty(d_all[0].sizes(), fp32);
    comm::Pending arriving = ring.reduce_scatter(mine, d_all);
    gradients.dq.copy_(dq);
    arriving.wait();
    gradients.dk.copy_(mine[0]);
    gradients.dv.copy_(mine[1]);
}

}  // namespace ringshard::attention
