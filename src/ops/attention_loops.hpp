#pragma once

#include "attention_kernels.hpp"
#include "attention_products.hpp"

// The two passes of attention over blocks of keys. Scores of a few queries stay in the first cache
// between the products; products leave out what the diagonal hides.
namespace ringshard::ops {
namespace {

constexpr int64_t keys_of_block = 64;

RINGSHARD_KERNEL int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
RINGSHARD_KERNEL int64_t greatest(int64_t a, int64_t b) { return a > b ? a : b; }
RINGSHARD_KERNEL int64_t rounded_up(int64_t n, int64_t step) {
    return (n + step - 1) / step * step;
}

// Hands out pieces of the caller's memory, each from an address that 64 divides. Without memory it
// counts what would be needed.
class Memory {
public:
    explicit Memory(void* begin) : begin_(reinterpret_cast<uintptr_t>(begin)) {}
    template <class T>
    T* take(int64_t count) {
        T* const piece = reinterpret_cast<T*>(begin_ + static_cast<uintptr_t>(used_));
        used_ = rounded_up(used_ + count * static_cast<int64_t>(sizeof(T)), 64);
        return piece;
    }
    int64_t used() const { return used_; }

private:
    uintptr_t begin_;
    int64_t used_ = 0;
};

// Of the keys from `key` on, how many a query sees.
template <class T>
RINGSHARD_KERNEL int64_t visible_keys(const AttentionTask<T>& task, int64_t query, int64_t key,
                                      int64_t keys) {
    if (!task.diagonal) return keys;
    return greatest(0, least(keys, query + 1 - key));
}

// The first row of the task that sees a key from `key` on; even.
template <class T>
RINGSHARD_KERNEL int64_t first_row(const AttentionTask<T>& task, int64_t key) {
    return task.diagonal ? greatest(0, key - task.first) & ~int64_t{1} : 0;
}

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
template <class M>
RINGSHARD_KERNEL float weigh_row(typename M::Element* weights, const float* scores, float scale,
                                 int32_t visible, int64_t end, float& largest,
                                 typename M::Float& sum) {
    using Float = typename M::Float;
    const Float hidden = spread<M>(minus_infinity);
    Float most = spread<M>(largest);
    for (int64_t i = 0; i < end; i += M::lanes) {
        const Float score = load<M>(scores + i) * scale;
        most = greater<M>(most, keep_first<M>(score, visible - static_cast<int32_t>(i), hidden));
    }
    const float now = greatest_lane<M>(most);
    const float base = now == minus_infinity ? 0.0F : now;
    Float added{};
    for (int64_t i = 0; i < end; i += M::lanes) {
        const Float weight = keep_first<M>(exponential<M>(load<M>(scores + i) * scale - base),
                                           visible - static_cast<int32_t>(i), Float{});
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
    ForwardBlock(const AttentionTask<T>& task, const ForwardMemory<M>& memory, float* out,
                 int64_t key, int64_t keys)
        : task_(task),
          memory_(memory),
          out_(out),
          key_(key),
          keys_(keys),
          depth_(elements_of<M>(task.width)),
          wide_(padded_width(task.width)) {}

    void run() const {
        pack_columns<M>(memory_.k, task_.k.data + key_ * task_.k.token, task_.k.token, keys_,
                        task_.width);
        pack_rows<M>(memory_.v, task_.v.data + key_ * task_.v.token, task_.v.token, keys_,
                     task_.width);
        for (int64_t h = 0; h < task_.group; ++h)
            for (int64_t r = first_row(task_, key_); r < task_.count; r += M::rows)
                do_queries(h, r);
    }

private:
    void do_queries(int64_t h, int64_t r) const {
        const int64_t count = least(M::rows, task_.count - r);
        const int64_t visible = visible_keys(task_, task_.first + r + count - 1, key_, keys_);
        const int64_t end = rounded_up(visible, M::lanes);
        const int64_t row = h * task_.count + r;
        multiply<M>(count, {memory_.q + row * depth_, depth_, 1},
                    {memory_.k, rounded_up(keys_, M::lanes), depth_}, end, depth_, memory_.scores,
                    keys_of_block, false);
        constexpr int64_t weights_row = elements_of<M>(keys_of_block);
        for (int64_t i = 0; i < count; ++i) {
            const auto seen = visible_keys(task_, task_.first + r + i, key_, keys_);
            const float factor = weigh_row<M>(
                memory_.weights + i * weights_row, memory_.scores + i * keys_of_block, task_.scale,
                static_cast<int32_t>(seen), end, memory_.largest[row + i], memory_.sums[row + i]);
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
    const int64_t seen = task.diagonal ? least(task.keys, task.first + task.count) : task.keys;
    for (int64_t key = 0; key < seen; key += keys_of_block)
        ForwardBlock<M, T>(task, memory, result.out, key, least(keys_of_block, seen - key)).run();
    for (int64_t row = 0; row < rows; ++row) {
        float sum = 0;
        for (int64_t i = 0; i < M::lanes; ++i) sum += memory.sums[row][i];
        const float inverse = sum == 0 ? 0.0F : 1.0F / sum;
        for (int64_t c = 0; c < wide; ++c) result.out[row * wide + c] *= inverse;
        result.lse[row] = memory.largest[row] + __builtin_logf(sum);
    }
}

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

// With p = e^(scale * score - lse), the gradient of a score is scale * p * (d_p - delta).
struct ScoreRow {
    const float* scores;
    const float* d_weights;
    float scale;
    float lse;
    float delta;
    int32_t visible;
};
template <class M>
struct WeightAndGradient {
    typename M::Float weight;
    typename M::Float gradient;
};
template <class M>
RINGSHARD_KERNEL WeightAndGradient<M> score_gradient(const ScoreRow& row, int64_t i) {
    using Float = typename M::Float;
    const int32_t visible = row.visible - static_cast<int32_t>(i);
    const Float weight = keep_first<M>(
        exponential<M>(load<M>(row.scores + i) * row.scale - row.lse), visible, Float{});
    const Float gradient = weight * row.scale * (load<M>(row.d_weights + i) - row.delta);
    return {weight, keep_first<M>(gradient, visible, Float{})};
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
          first_row_(first_row(forward_, key)) {}

    void run() const {
        for (int64_t r = first_row_; r < forward_.count; r += M::rows) do_queries(r);
        for (int64_t n = 0; n < keys_; n += M::rows) do_keys(n);
    }

private:
    // Weights, gradients of scores and dq of a few queries.
    void do_queries(int64_t r) const {
        const int64_t count = least(M::rows, forward_.count - r);
        const int64_t visible = visible_keys(forward_, forward_.first + r + count - 1, key_, keys_);
        const int64_t end = rounded_up(visible, M::lanes);
        const int64_t stride = rounded_up(keys_, M::lanes);
        const int64_t row = head_ * forward_.count + r;
        multiply<M>(count, {memory_.q + row * depth_, depth_, 1}, {memory_.k, stride, depth_}, end,
                    depth_, memory_.scores, keys_of_block, false);
        multiply<M>(count, {memory_.d_out + row * depth_, depth_, 1}, {memory_.v, stride, depth_},
                    end, depth_, memory_.d_weights, keys_of_block, false);
        write_gradients(r, count, end);
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
        const int64_t visible =
            i < count ? visible_keys(forward_, forward_.first + r + i, key_, keys_) : 0;
        return {memory_.scores + i * keys_of_block,
                memory_.d_weights + i * keys_of_block,
                forward_.scale,
                task_.lse[row],
                task_.delta[row],
                static_cast<int32_t>(visible)};
    }

    // The products with columns of weights read up to `rows` keys beyond the last that is seen.
    void write_gradients(int64_t r, int64_t count, int64_t end) const {
        const int64_t zeros = least(keys_of_block, rounded_up(end + M::rows + 1, M::lanes));
        for (int64_t i = 0; i < count; i += M::per_element) {
            const int64_t place = (r + i) / M::per_element * keys_of_block;
            if constexpr (M::per_element == 2) {
                uint32_t* const plain = memory_.d_scores_row + i * elements_of<M>(keys_of_block);
                const ScoreRow even = score_row(r, i, count);
                const ScoreRow odd = score_row(r, i + 1, count);
                for (int64_t c = 0; c < end; c += M::lanes) {
                    const auto a = score_gradient<M>(even, c);
                    const auto b = score_gradient<M>(odd, c);
                    M::store_pair(memory_.weights + place + c, a.weight, b.weight);
                    M::store_pair(memory_.d_scores + place + c, a.gradient, b.gradient);
                    M::store_row(plain, c, a.gradient);
                    M::store_row(plain + elements_of<M>(keys_of_block), c, b.gradient);
                }
            } else {
                const ScoreRow row = score_row(r, i, count);
                for (int64_t c = 0; c < end; c += M::lanes) {
                    const auto a = score_gradient<M>(row, c);
                    put<M>(memory_.weights + place + c, a.weight);
                    put<M>(memory_.d_scores + place + c, a.gradient);
                }
            }
            for (int64_t c = end; c < zeros; ++c)
                memory_.weights[place + c] = memory_.d_scores[place + c] = Element{};
        }
    }

    // dk and dv of a few keys, from the first query on that sees one of them.
    void do_keys(int64_t n) const {
        const int64_t count = least(M::rows, keys_ - n);
        const int64_t first = greatest(first_row_, first_row(forward_, key_ + n));
        if (first >= forward_.count) return;
        const int64_t skipped = first / M::per_element;
        const int64_t steps = memory_.pairs - skipped;
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
    const int64_t seen =
        forward.diagonal ? least(forward.keys, forward.first + forward.count) : forward.keys;
    for (int64_t key = 0; key < seen; key += keys_of_block) {
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

template <class M>
int64_t forward_bytes(int64_t group, int64_t count, int64_t width) {
    return ForwardMemory<M>(nullptr, group, count, width).bytes;
}
template <class M>
int64_t backward_bytes(int64_t group, int64_t count, int64_t width) {
    return BackwardMemory<M>(nullptr, group, count, width).bytes;
}

template <auto a, auto b>
int64_t greater_bytes(int64_t group, int64_t count, int64_t width) {
    return greatest(a(group, count, width), b(group, count, width));
}

// OfFp32 for numbers of fp32, OfBf16 for those of bf16.
template <class OfFp32, class OfBf16>
constexpr AttentionKernels kernels_of(const char* name) {
    return {name,
            greater_bytes<forward_bytes<OfFp32>, forward_bytes<OfBf16>>,
            greater_bytes<backward_bytes<OfFp32>, backward_bytes<OfBf16>>,
            forward<OfFp32, float>,
            forward<OfBf16, uint16_t>,
            backward<OfFp32, float>,
            backward<OfBf16, uint16_t>};
}

}  // namespace
}  // namespace ringshard::ops
