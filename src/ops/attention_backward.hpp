#pragma once

#include "attention_blocks.hpp"

// The gradients of attention over blocks of keys. Products leave out the keys that the diagonal
// hides.
namespace ringshard::ops {
namespace {

template <class M>
struct BackwardMemory {
    using Element = typename M::Element;

    BackwardMemory(void* begin, int64_t group, int64_t count, int64_t width) {
        Memory memory(begin);
        const int64_t depth = elements_of<M>(width);
        const int64_t wide = padded_width(width);
        const int64_t keys = elements_of<M>(keys_of_block);
        pairs = elements_of<M>(count);
        q = memory.take<Element>(group * count * depth);
        d_out = memory.take<Element>(group * count * depth);
        q_rows = memory.take<Element>(group * pairs * wide);
        d_out_rows = memory.take<Element>(group * pairs * wide);
        k = memory.take<Element>(keys_of_block * depth);
        v = memory.take<Element>(keys_of_block * depth);
        k_rows = memory.take<Element>(keys * wide);
        scores = memory.take<float>(M::rows * keys_of_block);
        d_weights = memory.take<float>(M::rows * keys_of_block);
        weights = memory.take<Element>(pairs * keys_of_block);
        d_scores = memory.take<Element>(pairs * keys_of_block);
        d_scores_row = memory.take<Element>(M::per_element == 1 ? 0 : M::rows * keys);
        bytes = memory.used();
    }
    int64_t pairs;  // elements of a column of `count` numbers
    Element* q;     // [group, count, depth]
    Element* d_out;
    Element* q_rows;  // [group]; columns are of the head
    Element* d_out_rows;
    Element* k;  // columns are keys
    Element* v;
    Element* k_rows;  // columns are of the head
    float* scores;    // [rows, keys_of_block]
    float* d_weights;
    Element* weights;  // [pairs, keys_of_block]
    Element* d_scores;
    Element* d_scores_row;  // [rows, elements of keys_of_block]
    int64_t bytes;
};

// With p = e^(scale * score - lse), the gradient of a score is scale * p * (d_p - delta). Scores
// under a cap are whole: their gradient is that of the product, by the slope of the cap.
struct ScoreRow {
    const float* scores;
    const float* d_weights;
    float scale;
    float cap;
    float lse;
    float delta;
    VisibleKeys visible;
};
template <class M>
struct WeightAndGradient {
    typename M::Float weight;
    typename M::Float gradient;
};
template <class M, bool hides_first, bool caps>
RINGSHARD_KERNEL WeightAndGradient<M> score_gradient(const ScoreRow& row, int64_t i) {
    using Float = typename M::Float;
    const Float weight = keep_visible<M, hides_first>(
        exponential<M>(caps ? load<M>(row.scores + i) - row.lse
                            : load<M>(row.scores + i) * row.scale - row.lse),
        row.visible, i, Float{});
    Float gradient = weight * row.scale * (load<M>(row.d_weights + i) - row.delta);
    if constexpr (caps) {
        const Float part = load<M>(row.scores + i) / row.cap;
        gradient *= 1.0F - part * part;
    }
    return {weight, keep_visible<M, hides_first>(gradient, row.visible, i, Float{})};
}

// One block of keys for the queries of one head.
template <class M, class T>
class BackwardBlock {
public:
    using Element = typename M::Element;

    BackwardBlock(const AttentionGradientTask<T>& task, const BackwardMemory<M>& memory,
                  int64_t head, int64_t key, int64_t keys)
        : task_(task),
          forward_(task.forward),
          memory_(memory),
          head_(head),
          key_(key),
          keys_(keys),
          depth_(elements_of<M>(forward_.width)),
          wide_(padded_width(forward_.width)),
          first_row_(first_row(forward_, key)),
          end_of_rows_(end_of_rows(forward_, key, keys)) {}

    void run() const {
        for (int64_t r = first_row_; r < end_of_rows_; r += M::rows) do_queries(r);
        for (int64_t n = 0; n < keys_; n += M::rows) do_keys(n);
    }

private:
    // Weights, gradients of scores and dq of a few queries.
    void do_queries(int64_t r) const {
        const int64_t count = least(M::rows, end_of_rows_ - r);
        const auto [hidden, visible] =
            visible_keys(forward_, forward_.first + r + count - 1, key_, keys_);
        const int64_t end = rounded_up(visible, M::lanes);
        const int64_t stride = rounded_up(keys_, M::lanes);
        const int64_t row = head_ * forward_.count + r;
        multiply<M>(count, {memory_.q + row * depth_, depth_, 1}, {memory_.k, stride, depth_}, end,
                    depth_, memory_.scores, keys_of_block, false);
        multiply<M>(count, {memory_.d_out + row * depth_, depth_, 1}, {memory_.v, stride, depth_},
                    end, depth_, memory_.d_weights, keys_of_block, false);
        if (forward_.cap > 0) {
            for (int64_t i = 0; i < count; ++i)
                cap_scores<M>(forward_, memory_.scores + i * keys_of_block, end);
            write_gradients<true, true>(r, count, end);
        } else if (hidden > 0) {
            write_gradients<true, false>(r, count, end);
        } else {
            write_gradients<false, false>(r, count, end);
        }
        multiply<M>(count, d_scores_of(r), {memory_.k_rows, wide_, elements_of<M>(keys_)}, wide_,
                    elements_of<M>(visible), task_.dq + row * wide_, wide_, true);
    }

    Left<Element> d_scores_of(int64_t r) const {
        if constexpr (M::per_element == 1)
            return {memory_.d_scores + r * keys_of_block, keys_of_block, 1};
        return {memory_.d_scores_row, elements_of<M>(keys_of_block), 1};
    }

    ScoreRow score_row(int64_t r, int64_t i, int64_t count) const {
        const int64_t row = head_ * forward_.count + r + least(i, count - 1);
        const VisibleKeys visible =
            i < count ? visible_keys(forward_, forward_.first + r + i, key_, keys_) : VisibleKeys{};
        return {memory_.scores + i * keys_of_block,
                memory_.d_weights + i * keys_of_block,
                forward_.scale,
                forward_.cap,
                task_.lse[row],
                task_.delta[row],
                visible};
    }

    // The products with columns of weights read up to `rows` keys beyond the last that is seen.
    template <bool hides_first, bool caps>
    void write_gradients(int64_t r, int64_t count, int64_t end) const {
        const int64_t zeros = least(keys_of_block, rounded_up(end + M::rows + 1, M::lanes));
        for (int64_t i = 0; i < count; i += M::per_element) {
            const int64_t place = (r + i) / M::per_element * keys_of_block;
            if constexpr (M::per_element == 2) {
                uint32_t* const plain = memory_.d_scores_row + i * elements_of<M>(keys_of_block);
                const ScoreRow even = score_row(r, i, count);
                const ScoreRow odd = score_row(r, i + 1, count);
                for (int64_t c = 0; c < end; c += M::lanes) {
                    const auto a = score_gradient<M, hides_first, caps>(even, c);
                    const auto b = score_gradient<M, hides_first, caps>(odd, c);
                    M::store_pair(memory_.weights + place + c, a.weight, b.weight);
                    M::store_pair(memory_.d_scores + place + c, a.gradient, b.gradient);
                    M::store_row(plain, c, a.gradient);
                    M::store_row(plain + elements_of<M>(keys_of_block), c, b.gradient);
                }
            } else {
                const ScoreRow row = score_row(r, i, count);
                for (int64_t c = 0; c < end; c += M::lanes) {
                    const auto a = score_gradient<M, hides_first, caps>(row, c);
                    put<M>(memory_.weights + place + c, a.weight);
                    put<M>(memory_.d_scores + place + c, a.gradient);
                }
            }
            for (int64_t c = end; c < zeros; ++c)
                memory_.weights[place + c] = memory_.d_scores[place + c] = Element{};
        }
    }

    // dk and dv of a few keys, of the queries that may see one of them.
    void do_keys(int64_t n) const {
        const int64_t count = least(M::rows, keys_ - n);
        const int64_t first = greatest(first_row_, first_row(forward_, key_ + n));
        if (first >= end_of_rows_) return;
        const int64_t skipped = first / M::per_element;
        const int64_t steps = elements_of<M>(end_of_rows_) - skipped;
        const int64_t from = skipped * keys_of_block + n;
        const int64_t rows = head_ * memory_.pairs * wide_;
        multiply<M>(count, {memory_.weights + from, 1, keys_of_block},
                    {memory_.d_out_rows + rows, wide_, memory_.pairs, skipped}, wide_, steps,
                    task_.dv.data + (key_ + n) * task_.dv.stride, task_.dv.stride, true);
        multiply<M>(count, {memory_.d_scores + from, 1, keys_of_block},
                    {memory_.q_rows + rows, wide_, memory_.pairs, skipped}, wide_, steps,
                    task_.dk.data + (key_ + n) * task_.dk.stride, task_.dk.stride, true);
    }

    const AttentionGradientTask<T>& task_;
    const AttentionTask<T>& forward_;
    const BackwardMemory<M>& memory_;
    int64_t head_;
    int64_t key_;
    int64_t keys_;
    int64_t depth_;
    int64_t wide_;
    int64_t first_row_;
    int64_t end_of_rows_;
};

template <class M, class T>
void backward(const AttentionGradientTask<T>& task, void* scratch) {
    const AttentionTask<T>& forward = task.forward;
    const BackwardMemory<M> memory(scratch, forward.group, forward.count, forward.width);
    const int64_t depth = elements_of<M>(forward.width);
    const int64_t wide = padded_width(forward.width);
    for (int64_t h = 0; h < forward.group; ++h) {
        const T* const q = forward.q.data + h * forward.q.head + forward.first * forward.q.token;
        const T* const d_out =
            task.d_out.data + h * task.d_out.head + forward.first * task.d_out.token;
        const int64_t left = h * forward.count * depth;
        const int64_t right = h * memory.pairs * wide;
        pack_left<M>(memory.q + left, q, forward.q.token, forward.count, forward.width);
        pack_left<M>(memory.d_out + left, d_out, task.d_out.token, forward.count, forward.width);
        pack_rows<M>(memory.q_rows + right, q, forward.q.token, forward.count, forward.width);
        pack_rows<M>(memory.d_out_rows + right, d_out, task.d_out.token, forward.count,
                     forward.width);
    }
    for (int64_t i = 0; i < forward.group * forward.count * wide; ++i) task.dq[i] = 0;
    const int64_t seen = end_of_keys(forward);
    for (int64_t key = first_key(forward); key < seen; key += keys_of_block) {
        const int64_t keys = least(keys_of_block, seen - key);
        const T* const k = forward.k.data + key * forward.k.token;
        const T* const v = forward.v.data + key * forward.v.token;
        pack_columns<M>(memory.k, k, forward.k.token, keys, forward.width);
        pack_columns<M>(memory.v, v, forward.v.token, keys, forward.width);
        pack_rows<M>(memory.k_rows, k, forward.k.token, keys, forward.width);
        for (int64_t h = 0; h < forward.group; ++h)
            BackwardBlock<M, T>(task, memory, h, key, keys).run();
    }
}

}  // namespace
}  // namespace ringshard::ops
