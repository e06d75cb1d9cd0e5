#pragma once

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>

#include "delta_chunks.hpp"

// The way of both passes of the gated delta rule through heads and segments.
namespace ringshard::ops {

// On the CPU each thread takes one key head at a time, so that its intermediate results stay in its
// cache, and of meta tensors as many as there are threads. A GPU takes all heads at once.
template <class Work>
void for_heads(const DeltaHeads& heads, Work work) {
    const at::Tensor& keys = heads.k;
    if (is_of_gpu(heads)) return work(HeadSpan{0, keys.size(1)});
    if (keys.is_meta()) {
        const int64_t threads = at::get_num_threads();
        for (int64_t head = 0; head < keys.size(1); head += threads)
            work(HeadSpan{head, std::min(threads, keys.size(1) - head)});
        return;
    }
    at::parallel_for(0, keys.size(1), 1, [&](int64_t begin, int64_t end) {
        const c10::InferenceMode no_autograd;  // is of a thread
        for (int64_t head = begin; head < end; ++head) work(HeadSpan{head, 1});
    });
}

// Returns the value heads of [x, heads, ...] that belong to a range of key heads.
inline at::Tensor part_of(const at::Tensor& all, const DeltaHeads& heads, const HeadSpan& span) {
    const int64_t repeats = heads.v.size(1) / heads.k.size(1);
    return all.narrow(1, span.first * repeats, span.number * repeats);
}

// A copy of the states of these heads in which the stretches of a segment begin, [stretches of the
// segment, heads, dk, dv]: zeros where they are undefined.
inline at::Tensor copy_states(const at::Tensor& first, const DeltaHeads& heads,
                              const HeadSpan& span, const Segment& segment) {
    if (first.defined()) return part_of(states_of(first, segment), heads, span).clone();
    const int64_t repeats = heads.v.size(1) / heads.k.size(1);
    return at::zeros(
        {segment.num_stretches, span.number * repeats, heads.k.size(2), heads.v.size(2)},
        heads.beta.options());
}

// The states of some heads on their way from segment to segment, in the order of tokens or against
// it: a stretch that several segments share goes on in the state that the one before left.
class Carried {
public:
    Carried(const DeltaStates& all, const DeltaHeads& heads, const HeadSpan& span,
            bool is_backwards)
        : all_(all), heads_(heads), span_(span), is_backwards_(is_backwards) {}

    // Returns the states of the segment's stretches.
    at::Tensor enter(const Segment& segment) const {
        at::Tensor states = copy_states(all_.first, heads_, span_, segment);
        const int64_t edge = is_backwards_ ? segment.num_stretches - 1 : 0;
        if (state_.defined() && segment.first_stretch + edge == stretch_)
            states[edge].copy_(state_);
        return states;
    }
    void leave(const Segment& segment, const at::Tensor& states) {
        const int64_t edge = is_backwards_ ? 0 : segment.num_stretches - 1;
        stretch_ = segment.first_stretch + edge;
        state_ = states[edge];
        if (all_.last.defined())
            part_of(states_of(all_.last, segment), heads_, span_).copy_(states);
    }

private:
    const DeltaStates& all_;
    const DeltaHeads& heads_;
    HeadSpan span_;
    bool is_backwards_;
    int64_t stretch_ = -1;
    at::Tensor state_;
};

// Some heads of a segment, in chunks, and the walk through them from the states in which they
// begin, which become those in which they end.
struct Pass {
    Pass(const DeltaHeads& all, const HeadSpan& span, const Segment& segment)
        : heads(heads_of(rows_of(all, segment), span)), chunks(heads, segment.layout) {}
    Walk walk_from(const at::Tensor& states, const Segment& segment) const {
        return walk_with(chunks.u.flatten(1, 2), states, segment);
    }
    Walk walk_with(const at::Tensor& values, const at::Tensor& states,
                   const Segment& segment) const {
        Walk forth = walk(chunks, segment.layout, values, states);
        states.copy_(forth.last);
        return forth;
    }
    // Walks with gradients, from the end of the segment to its beginning.
    Walk walk_back_from(const at::Tensor& d_states, const at::Tensor& d_values,
                        const at::Tensor& d_reads, const Segment& segment) const {
        Walk back = walk_back(chunks, segment.layout, d_values, d_reads, d_states);
        d_states.copy_(back.last);
        return back;
    }

    DeltaHeads heads;
    DeltaChunks chunks;
};

inline double scale_of(const DeltaHeads& heads) {
    if (heads.rule == StateRule::additive) return 1;
    return 1 / std::sqrt(static_cast<double>(heads.k.size(2)));
}

inline at::Tensor transposed(const at::Tensor& x) { return x.transpose(-1, -2); }

// P: the weights with which each token reads the values of its chunk.
inline at::Tensor reads(const Unit& q, const DeltaChunks& chunks, double scale) {
    return chunks.products->of(q.rows, chunks.k.rows).mul_(scale);
}

// [n, heads, ...] -> [n, kh, r, ...]
inline at::Tensor by_key_head(const at::Tensor& x, const DeltaChunks& chunks) {
    return x.unflatten(1, {chunks.v.size(1), chunks.v.size(2)});
}

// The columns of A in a map.
inline int64_t columns_of_transition(const DeltaHeads& heads) {
    return heads.rule == StateRule::additive ? 1 : heads.k.size(2);
}

// Maps that change nothing: [stretches, heads, dk, columns of A + dv].
inline at::Tensor identities(const DeltaHeads& heads, size_t num_stretches) {
    const int64_t columns = columns_of_transition(heads);
    const int64_t dk = heads.k.size(2);
    at::Tensor maps = at::zeros(
        {static_cast<int64_t>(num_stretches), heads.v.size(1), dk, columns + heads.v.size(2)},
        heads.beta.options());
    const at::Tensor transition = maps.narrow(3, 0, columns);
    if (heads.rule == StateRule::additive)
        transition.fill_(1);
    else
        transition.copy_(at::eye(dk, maps.options()));
    return maps;
}

// x [n, heads, rows, dv] behind columns of zeros.
inline at::Tensor behind_zeros(const at::Tensor& x, int64_t columns) {
    return at::cat({at::zeros({x.size(0), x.size(1), x.size(2), columns}, x.options()), x}, 3);
}

}  // namespace ringshard::ops
