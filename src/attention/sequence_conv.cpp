#include "ringshard/attention/sequence_conv.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "column_exchange.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/ops/causal_conv.hpp"
#include "state_exchange.hpp"

namespace ringshard::attention {

namespace {

// The three parts of a row, as views.
struct Gated {
    explicit Gated(const at::Tensor& rows)
        : in(rows.narrow(1, 0, rows.size(1) / 3)),
          out(rows.narrow(1, in.size(1), in.size(1))),
          x(rows.narrow(1, 2 * in.size(1), in.size(1))) {}
    at::Tensor in;
    at::Tensor out;
    at::Tensor x;
};

std::vector<std::vector<ColumnExchange::Columns>> equal_columns(int64_t ranks, int64_t width) {
    std::vector<std::vector<ColumnExchange::Columns>> columns;
    for (int64_t rank = 0; rank < ranks; ++rank) columns.push_back({{rank * width, width}});
    return columns;
}

// The columns of a Ulysses rank.
struct ConvShare {
    ConvShare(const at::Tensor& rows, comm::Communicator& ulysses,
              std::optional<at::ScalarType> exchange_type)
        : width(rows.size(1) / 3 / ulysses.size()),
          begin(ulysses.rank() * width),
          exchange(equal_columns(ulysses.size(), width), ulysses,
                   {rows.scalar_type(), exchange_type}) {}

    at::Tensor of(const at::Tensor& weight) const {
        return weight.defined() ? weight.narrow(0, begin, width) : weight;
    }
    ShortConvWeights of(const ShortConvWeights& weights) const {
        return {of(weights.conv), of(weights.bias)};
    }

    int64_t width;
    int64_t begin;
    ColumnExchange exchange;
};

// The exchanges know convolutions of rows_before + 1 taps, of which a shorter one has zeros.
ops::CausalConv conv_of(const ShortConvWeights& weights, const Chain& chain,
                        const at::Tensor& before) {
    const int64_t missing = rows_before + 1 - weights.conv.size(2);
    RINGSHARD_CHECK(missing >= 0);
    return {at::constant_pad_nd(weights.conv, {missing, 0}).contiguous(), chain.stretches, before,
            weights.bias.defined() ? weights.bias.contiguous() : at::Tensor(), false};
}

}  // namespace

SequenceConv::Result SequenceConv::forward(const at::Tensor& rows, const ShortConvWeights& weights,
                                           const Plan& plan) const {
    RINGSHARD_CHECK(plan.chain, "a plan of another mask");
    const ConvShare share(rows, ulysses_, exchange_type_);
    const Gated parts(rows);
    const at::Tensor x = share.exchange.parts_in(parts.in * parts.x);
    Result result;
    result.before = rows_before_stretches(*plan.chain, ring_, x);
    result.convolved = share.exchange.parts_out(
        ops::causal_conv(x, conv_of(share.of(weights), *plan.chain, result.before)));
    result.out = parts.out * result.convolved;
    return result;
}

at::Tensor SequenceConv::backward(const at::Tensor& rows, const ShortConvWeights& weights,
                                  const Result& result, const at::Tensor& d_out,
                                  const ShortConvWeights& gradients, const Plan& plan) const {
    const ConvShare share(rows, ulysses_, exchange_type_);
    const Gated parts(rows);
    const at::Tensor x = share.exchange.parts_in(parts.in * parts.x);
    const at::Tensor d_convolved = share.exchange.parts_in(d_out * parts.out).to(at::kFloat);
    const ops::CausalConv conv = conv_of(share.of(weights), *plan.chain, result.before);
    const at::Tensor d_x = at::empty(x.sizes(), d_convolved.options());
    const at::Tensor d_conv = at::zeros(conv.weight.sizes(), d_convolved.options());
    const at::Tensor d_before =
        ops::causal_conv_backward(d_convolved, x, conv, d_x, d_conv, share.of(gradients.bias));
    if (gradients.conv.defined()) {
        const int64_t taps = gradients.conv.size(2);
        share.of(gradients.conv).add_(d_conv.narrow(2, conv.weight.size(2) - taps, taps));
    }
    add_gradient_of_rows_before(*plan.chain, ring_, d_before, d_x);
    const at::Tensor d_product = share.exchange.parts_out(d_x);
    return at::cat({d_product * parts.x, d_out * result.convolved, d_product * parts.in}, 1);
}

at::Tensor conv_cached(const at::Tensor& rows, const ShortConvWeights& weights, const Plan& plan,
                       const at::Tensor& before) {
    RINGSHARD_CHECK(plan.chain && plan.chain->slots == 0, "a plan of another mask, or of a split");
    const Gated parts(rows);
    const at::Tensor x = parts.in * parts.x;
    const at::Tensor convolved = ops::causal_conv(x, conv_of(weights, *plan.chain, before));
    keep_last_rows(x, *plan.chain, before);
    return parts.out * convolved;
}

}  // namespace ringshard::attention
