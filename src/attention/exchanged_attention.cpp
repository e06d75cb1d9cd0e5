#include "exchanged_attention.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <numeric>

namespace ringshard::attention {

namespace {

// Rows of keys and values: [count, 2, g, d].
at::Tensor make_rows(const comm::RowCounts& counts, const Heads& heads, at::ScalarType type) {
    const int64_t count = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    return at::empty({count, 2, heads.k.size(1), heads.k.size(2)}, heads.k.options().dtype(type));
}
at::Tensor keys_of(const at::Tensor& rows) { return rows.select(1, 0); }
at::Tensor values_of(const at::Tensor& rows) { return rows.select(1, 1); }

// Calls `work` with every run of tokens that is sent, and where its rows begin.
template <class Work>
void for_sent(const KeyExchange& exchange, Work work) {
    int64_t row = 0;
    for (const Layout& to_rank : exchange.sent)
        for (const Run& run : to_rank) {
            work(run, row);
            row += run.length;
        }
}

// The keys and values that this rank needs of others.
class ReceivedKeys {
public:
    ReceivedKeys(const Heads& heads, const KeyExchange& exchange, comm::Communicator& ring)
        : queries_(heads.q),
          form_(heads.form),
          sent_(make_rows(exchange.num_sent, heads, heads.k.scalar_type())),
          received_(make_rows(exchange.num_received, heads, heads.k.scalar_type())) {
        for_sent(exchange, [&](const Run& run, int64_t row) {
            const at::Tensor rows = sent_.narrow(0, row, run.length);
            keys_of(rows).copy_(heads.k.narrow(0, run.start, run.length));
            values_of(rows).copy_(heads.v.narrow(0, run.start, run.length));
        });
        arriving_ =
            ring.all_to_all_uneven(received_, exchange.num_received, sent_, exchange.num_sent);
    }
    Heads wait() {
        arriving_.wait();
        return {queries_, keys_of(received_), values_of(received_), form_};
    }

private:
    at::Tensor queries_;
    ops::ScoreForm form_;
    at::Tensor sent_;
    at::Tensor received_;
    comm::Pending arriving_;
};

}  // namespace

Partial exchanged_forward(const LocalAttention& local, const Heads& heads, const Plan& plan,
                          comm::Communicator& ring) {
    Partial partial = make_partial(heads, plan);
    ReceivedKeys received(heads, *plan.exchange, ring);
    local.attend(heads, plan.step(0), Into::sums, partial);
    local.attend(received.wait(), plan.step(1), Into::sums, partial);
    return partial;
}

void exchanged_backward(const LocalAttention& local, const at::Tensor& d_out, const Heads& heads,
                        const Partial& whole, const Plan& plan, comm::Communicator& ring,
                        const HeadGradients& gradients) {
    const KeyExchange& exchange = *plan.exchange;
    const auto fp32 = heads.q.options().dtype(at::kFloat);
    const at::Tensor dq = at::zeros(heads.q.sizes(), fp32);
    const at::Tensor dk = at::zeros(heads.k.sizes(), fp32);
    const at::Tensor dv = at::zeros(heads.v.sizes(), fp32);
    // The received keys go first, so that their gradients travel while the other tiles compute.
    const at::Tensor d_received = make_rows(exchange.num_received, heads, at::kFloat).zero_();
    local.attend_backward(d_out, ReceivedKeys(heads, exchange, ring).wait(), whole, plan.step(1),
                          Into::sums, {dq, keys_of(d_received), values_of(d_received)});
    const at::Tensor back = make_rows(exchange.num_sent, heads, at::kFloat);
    comm::Pending arriving =
        ring.all_to_all_uneven(back, exchange.num_sent, d_received, exchange.num_received);
    local.attend_backward(d_out, heads, whole, plan.step(0), Into::sums, {dq, dk, dv});
    arriving.wait();
    for_sent(exchange, [&](const Run& run, int64_t row) {
        const at::Tensor rows = back.narrow(0, row, run.length);
        dk.narrow(0, run.start, run.length).add_(keys_of(rows));
        dv.narrow(0, run.start, run.length).add_(values_of(rows));
    });
    gradients.dq.copy_(dq);
    gradients.dk.copy_(dk);
    gradients.dv.copy_(dv);
}

}  // namespace ringshard::attention
