#pragma once

#include "attention_blocks.hpp"

// Attention over blocks of keys. The scores of a few queries stay in the first cache between the
// two products; a softmax over the blocks so far is corrected when a greater score comes.
namespace ringshard::ops {
namespace {

template <class M>
struct ForwardMemory {
    using Float = typename M::Float;
    using Element = typename M::Element;

    ForwardMemory(void* begin, int64_t group, int64_t count, int64_t width) {
        Memory memory(begin);
        const int64_t depth = elements_of<M>(width);
        q = memory.take<Element>(group * count * depth);
        k = memory.take<Element>(keys_of_block * depth);
        v = memory.take<Element>(elements_of<M>(keys_of_block) * padded_width(width));
        largest = memory.take<float>(group * count);
        sums = memory.take<Float>(group * count);
        scores = memory.take<float>(M::rows * keys_of_block);
        weights = memory.take<Element>(M::rows * elements_of<M>(keys_of_block));
        bytes = memory.used();
    }
    Element* q;      // [group, count, depth]
    Element* k;      // columns are keys
    Element* v;      // columns are of the head
    float* largest;  // [group, count] so far
    Float* sums;     // of exponentials, in lanes
    float* scores;   // [rows, keys_of_block]
    Element* weights;
    int64_t bytes;
};

// Weights of one query, and the sum it has so far; returns the factor of all earlier sums.
template <class M, bool hides_first>
RINGSHARD_KERNEL float weigh_row(typename M::Element* weights, const float* scores, float scale,
                                 const VisibleKeys& visible, int64_t end, float& largest,
                                 typename M::Float& sum) {
    using Float = typename M::Float;
    const Float hidden = spread<M>(minus_infinity);
    Float most = spread<M>(largest);
    for (int64_t i = 0; i < end; i += M::lanes) {
        const Float score = load<M>(scores + i) * scale;
        most = greater<M>(most, keep_visible<M, hides_first>(score, visible, i, hidden));
    }
    const float now = greatest_lane<M>(most);
    const float base = now == minus_infinity ? 0.0F : now;
    Float added{};
    for (int64_t i = 0; i < end; i += M::lanes) {
        const Float weight = keep_visible<M, hides_first>(
            exponential<M>(load<M>(scores + i) * scale - base), visible, i, Float{});
        added += weight;
        M::store_row(weights, i, weight);
    }
    if (now == largest) {
        sum += added;
        return 1.0F;
    }
    const float factor = exponential<M>(spread<M>(largest - base))[0];
    largest = now;
    sum = sum * factor + added;
    return factor;
}

// One block of keys for the queries of the task.
template <class M, class T>
class ForwardBlock {
public:
    using Float = typename M::Float;
    using Element = typename M::Element;

    ForwardBlock(const AttentionTask<T>& task, const ForwardMemory<M>& memory, float* out,
                 int64_t key, int64_t keys)
        : task_(task),
          memory_(memory),
          out_(out),
          key_(key),
          keys_(keys),
          depth_(elements_of<M>(task.width)),
          wide_(padded_width(task.width)),
          end_of_rows_(end_of_rows(task, key, keys)) {}

    void run() const {
        pack_columns<M>(memory_.k, task_.k.data + key_ * task_.k.token, task_.k.token, keys_,
                        task_.width);
        pack_rows<M>(memory_.v, task_.v.data + key_ * task_.v.token, task_.v.token, keys_,
                     task_.width);
        for (int64_t h = 0; h < task_.group; ++h)
            for (int64_t r = first_row(task_, key_); r < end_of_rows_; r += M::rows)
                do_queries(h, r);
    }

private:
    void do_queries(int64_t h, int64_t r) const {
        const int64_t count = least(M::rows, end_of_rows_ - r);
        const int64_t last = task_.first + r + count - 1;
        const auto [hidden, visible] = visible_keys(task_, last, key_, keys_);
        const bool hides_first = hidden > 0;
        const int64_t end = rounded_up(visible, M::lanes);
        const int64_t row = h * task_.count + r;
        multiply<M>(count, {memory_.q + row * depth_, depth_, 1},
                    {memory_.k, rounded_up(keys_, M::lanes), depth_}, end, depth_, memory_.scores,
                    keys_of_block, false);
        constexpr int64_t weights_row = elements_of<M>(keys_of_block);
        const bool caps = task_.cap > 0;
        const float scale = caps ? 1.0F : task_.scale;
        for (int64_t i = 0; i < count; ++i) {
            const VisibleKeys seen = visible_keys(task_, task_.first + r + i, key_, keys_);
            Element* const weights = memory_.weights + i * weights_row;
            float* const scores = memory_.scores + i * keys_of_block;
            if (caps) cap_scores<M>(task_, scores, end);
            float& largest = memory_.largest[row + i];
            Float& sum = memory_.sums[row + i];
            const float factor =
                hides_first ? weigh_row<M, true>(weights, scores, scale, seen, end, largest, sum)
                            : weigh_row<M, false>(weights, scores, scale, seen, end, largest, sum);
            if (factor != 1.0F) scale_out(row + i, factor);
        }
        multiply<M>(count, {memory_.weights, weights_row, 1},
                    {memory_.v, wide_, elements_of<M>(keys_)}, wide_, elements_of<M>(visible),
                    out_ + row * wide_, wide_, true);
    }

    void scale_out(int64_t row, float factor) const {
        float* const out = out_ + row * wide_;
        for (int64_t c = 0; c < wide_; c += M::lanes) put<M>(out + c, load<M>(out + c) * factor);
    }

    const AttentionTask<T>& task_;
    const ForwardMemory<M>& memory_;
    float* out_;
    int64_t key_;
    int64_t keys_;
    int64_t depth_;
    int64_t wide_;
    int64_t end_of_rows_;
};

template <class M, class T>
void forward(const AttentionTask<T>& task, const AttentionSums& result, void* scratch) {
    using Float = typename M::Float;
    const ForwardMemory<M> memory(scratch, task.group, task.count, task.width);
    const int64_t depth = elements_of<M>(task.width);
    const int64_t wide = padded_width(task.width);
    const int64_t rows = task.group * task.count;
    for (int64_t h = 0; h < task.group; ++h)
        pack_left<M>(memory.q + h * task.count * depth,
                     task.q.data + h * task.q.head + task.first * task.q.token, task.q.token,
                     task.count, task.width);
    for (int64_t i = 0; i < rows; ++i) {
        memory.largest[i] = minus_infinity;
        memory.sums[i] = Float{};
    }
    for (int64_t i = 0; i < rows * wide; ++i) result.out[i] = 0;
    const int64_t seen = end_of_keys(task);
    for (int64_t key = first_key(task); key < seen; key += keys_of_block)
        ForwardBlock<M, T>(task, memory, result.out, key, least(keys_of_block, seen - key)).run();
    for (int64_t row = 0; row < rows; ++row) {
        float sum = 0;
        for (int64_t i = 0; i < M::lanes; ++i) sum += memory.sums[row][i];
        const float inverse = sum == 0 ? 0.0F : 1.0F / sum;
        for (int64_t c = 0; c < wide; ++c) result.out[row * wide + c] *= inverse;
        result.lse[row] = memory.largest[row] + __builtin_logf(sum);
    }
}

}  // namespace
}  // namespace ringshard::ops
