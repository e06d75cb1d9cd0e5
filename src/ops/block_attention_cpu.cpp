#include "block_attention_cpu.hpp"

#include <cmath>
#include <memory>
#include <vector>

#include "ringshard/base/simd.hpp"
#include "rows.hpp"

namespace ringshard::ops {

namespace {

template <class From, class To>
RINGSHARD_SIMD void write_row(To* __restrict into, const From* __restrict from, int64_t width) {
    for (int64_t i = 0; i < width; ++i) store(into[i], load(from[i]));
}

template <class T>
RINGSHARD_SIMD float dot(const T* __restrict a, const T* __restrict b, int64_t width) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; ++i) sum += load(a[i]) * load(b[i]);
    return sum;
}

// A number as the kernels see it.
template <class T>
using Bits = std::conditional_t<std::is_same_v<T, bf16>, uint16_t, float>;

// Heads from `head` on of one document in a view [n, t, heads, d].
template <class T>
HeadRows<T> rows_of(const at::Tensor& view, int64_t document, int64_t head) {
    auto* const data = static_cast<T*>(view.data_ptr());
    return {data + document * view.stride(0) + head * view.stride(2), view.stride(1),
            view.stride(2)};
}

template <class T>
T* row_of(const HeadRows<T>& rows, int64_t head, int64_t token) {
    return rows.data + head * rows.head + token * rows.token;
}

struct TaskSizes {
    explicit TaskSizes(const AttentionInput& input)
        : documents(input.q.size(0)),
          queries(input.q.size(1)),
          keys(input.k.size(1)),
          key_heads(input.k.size(2)),
          group(input.q.size(2) / key_heads),
          width(input.q.size(3)),
          step(std::min(queries, queries_of_task(group))),
          steps((queries + step - 1) / step) {}
    int64_t documents, queries, keys, key_heads, group, width;
    int64_t step;   // queries of a task
    int64_t steps;  // tasks of a key head
};

template <class T>
AttentionTask<Bits<T>> task_of(const AttentionInput& input, const TaskSizes& s, int64_t document,
                               int64_t key_head) {
    return {s.group,
            0,
            0,
            s.keys,
            s.width,
            input.band.back,
            input.band.ahead,
            static_cast<float>(input.form.scale_of(s.width)),
            static_cast<float>(input.form.cap),
            rows_of<const Bits<T>>(input.q, document, key_head * s.group),
            rows_of<const Bits<T>>(input.k, document, key_head),
            rows_of<const Bits<T>>(input.v, document, key_head)};
}

void set_queries(auto& task, const TaskSizes& s, int64_t step) {
    task.first = step * s.step;
    task.count = std::min(s.step, s.queries - task.first);
}

// Memory of one thread that starts where 64 divides the address.
class Workspace {
public:
    explicit Workspace(int64_t bytes)
        : memory_(std::make_unique_for_overwrite<char[]>(static_cast<size_t>(bytes + 64))) {}
    void* data() const {
        const auto address = reinterpret_cast<uintptr_t>(memory_.get());
        return memory_.get() + (64 - address % 64) % 64;
    }

private:
    std::unique_ptr<char[]> memory_;
};

struct ForwardResult {
    at::Tensor out;  // [n, t, h, d]
    at::Tensor lse;  // [n, t, h]
};

// The queries of one step, of the heads that share one key head.
template <class To>
void put_result(const ForwardResult& result, const TaskSizes& s, int64_t document, int64_t key_head,
                const auto& task, const AttentionSums& sums) {
    const auto out = rows_of<To>(result.out, document, key_head * s.group);
    const auto lse = rows_of<float>(result.lse, document, key_head * s.group);
    const int64_t wide = padded_width(s.width);
    for (int64_t h = 0; h < s.group; ++h)
        for (int64_t r = 0; r < task.count; ++r) {
            const int64_t row = h * task.count + r;
            write_row(row_of(out, h, task.first + r), sums.out + row * wide, s.width);
            *row_of(lse, h, task.first + r) = sums.lse[row];
        }
}

void run(const AttentionKernels& kernels, const AttentionTask<float>& task,
         const AttentionSums& sums, void* memory) {
    kernels.forward_fp32(task, sums, memory);
}
void run(const AttentionKernels& kernels, const AttentionTask<uint16_t>& task,
         const AttentionSums& sums, void* memory) {
    kernels.forward_bf16(task, sums, memory);
}
void run(const AttentionKernels& kernels, const AttentionGradientTask<float>& task, void* memory) {
    kernels.backward_fp32(task, memory);
}
void run(const AttentionKernels& kernels, const AttentionGradientTask<uint16_t>& task,
         void* memory) {
    kernels.backward_bf16(task, memory);
}

template <class T, class To>
void forward(const AttentionKernels& kernels, const AttentionInput& input,
             const ForwardResult& result) {
    const TaskSizes s(input);
    const int64_t rows = s.group * s.step;
    const int64_t bytes = kernels.forward_bytes(s.group, s.step, s.width);
    const auto work = [&](int64_t begin, int64_t end) {
        const Workspace workspace(bytes);
        std::vector<float> out(static_cast<size_t>(rows * padded_width(s.width)));
        std::vector<float> lse(static_cast<size_t>(rows));
        for (int64_t i = begin; i < end; ++i) {
            const int64_t document = i / s.steps / s.key_heads;
            const int64_t key_head = i / s.steps % s.key_heads;
            auto task = task_of<T>(input, s, document, key_head);
            // Later queries see more keys: short and long tasks take turns.
            const int64_t place = i % s.steps;
            set_queries(task, s, place % 2 == 0 ? place / 2 : s.steps - 1 - place / 2);
            run(kernels, task, {out.data(), lse.data()}, workspace.data());
            put_result<To>(result, s, document, key_head, task, {out.data(), lse.data()});
        }
    };
    at::parallel_for(0, s.documents * s.key_heads * s.steps, 1, work);
}

// Gradients of a key head's keys or values, summed in fp32: in place, or beside it. On top of what
// is there they are added once, and not in every block, since each time rounds.
template <class To>
class KeySums {
public:
    KeySums(HeadRows<To> into, bool adds, const TaskSizes& s) : into_(into), s_(s), adds_(adds) {
        if (is_in_place()) {
            for (int64_t r = 0; r < s.keys; ++r) std::fill_n(row_of(into, 0, r), s.width, To(0.0F));
        } else {
            beside_.resize(static_cast<size_t>(s.keys * padded_width(s.width)));
        }
    }
    SumRows rows() {
        if constexpr (std::is_same_v<To, float>)
            if (is_in_place()) return {into_.data, into_.token};
        return {beside_.data(), padded_width(s_.width)};
    }
    void finish() const {
        for (int64_t r = 0; r < (is_in_place() ? 0 : s_.keys); ++r)
            put_gradient(row_of(into_, 0, r), beside_.data() + r * padded_width(s_.width), s_.width,
                         adds_);
    }
    static void put_gradient(To* into, const float* sums, int64_t width, bool adds) {
        if constexpr (std::is_same_v<To, float>)
            if (adds) return add_row(into, sums, width);
        write_row(into, sums, width);
    }

private:
    bool is_in_place() const {
        return std::is_same_v<To, float> && !adds_ && s_.width == padded_width(s_.width);
    }

    HeadRows<To> into_;
    const TaskSizes& s_;
    bool adds_;
    std::vector<float> beside_;
};

struct BackwardInput {
    const AttentionInput& heads;
    const at::Tensor& d_out;
    const at::Tensor& out;
    const at::Tensor& lse;
    const AttentionGradients& gradients;
};

// The buffers of a thread for the queries of one step: [group, count].
struct BackwardRows {
    explicit BackwardRows(const TaskSizes& s)
        : lse(static_cast<size_t>(s.group * s.step)),
          delta(lse.size()),
          dq(lse.size() * static_cast<size_t>(padded_width(s.width))) {}
    std::vector<float> lse;
    std::vector<float> delta;
    std::vector<float> dq;
};

// All query heads of one key head of one document.
template <class T, class To>
void backward_key_head(const AttentionKernels& kernels, const BackwardInput& in, const TaskSizes& s,
                       int64_t document, int64_t key_head, BackwardRows& memory, void* scratch) {
    const int64_t head = key_head * s.group;
    KeySums<To> dk(rows_of<To>(in.gradients.dk, document, key_head), in.gradients.adds, s);
    KeySums<To> dv(rows_of<To>(in.gradients.dv, document, key_head), in.gradients.adds, s);
    const auto d_out = rows_of<const T>(in.d_out, document, head);
    const auto out = rows_of<const T>(in.out, document, head);
    const auto lse = rows_of<const float>(in.lse, document, head);
    const auto dq = rows_of<To>(in.gradients.dq, document, head);
    AttentionGradientTask<Bits<T>> task{task_of<T>(in.heads, s, document, key_head),
                                        rows_of<const Bits<T>>(in.d_out, document, head),
                                        memory.lse.data(),
                                        memory.delta.data(),
                                        memory.dq.data(),
                                        dk.rows(),
                                        dv.rows()};
    for (int64_t step = 0; step < s.steps; ++step) {
        set_queries(task.forward, s, step);
        const auto for_rows = [&](auto work) {
            for (int64_t h = 0; h < s.group; ++h)
                for (int64_t r = 0; r < task.forward.count; ++r)
                    work(h, task.forward.first + r,
                         static_cast<size_t>(h * task.forward.count + r));
        };
        for_rows([&](int64_t h, int64_t token, size_t row) {
            memory.lse[row] = *row_of(lse, h, token);
            memory.delta[row] = dot(row_of(d_out, h, token), row_of(out, h, token), s.width);
        });
        run(kernels, task, scratch);
        const auto wide = static_cast<size_t>(padded_width(s.width));
        for_rows([&](int64_t h, int64_t token, size_t row) {
            KeySums<To>::put_gradient(row_of(dq, h, token), memory.dq.data() + row * wide, s.width,
                                      in.gradients.adds);
        });
    }
    dk.finish();
    dv.finish();
}

template <class T, class To>
void backward(const AttentionKernels& kernels, const BackwardInput& in) {
    const TaskSizes s(in.heads);
    const int64_t bytes = kernels.backward_bytes(s.group, s.step, s.width);
    at::parallel_for(0, s.documents * s.key_heads, 1, [&](int64_t begin, int64_t end) {
        const Workspace workspace(bytes);
        BackwardRows memory(s);
        for (int64_t i = begin; i < end; ++i)
            backward_key_head<T, To>(kernels, in, s, i / s.key_heads, i % s.key_heads, memory,
                                     workspace.data());
    });
}

bool has_numbers(const AttentionInput& input) {
    return input.q.size(0) * input.q.size(1) * input.k.size(1) > 0;
}

}  // namespace

void attend_with(const AttentionKernels& kernels, const AttentionInput& input,
                 const at::Tensor& out, const at::Tensor& lse) {
    RINGSHARD_CHECK(has_numbers(input));
    const ForwardResult result{out, lse};
    with_type(input.q, [&]<class T>(T*) {
        with_type(out, [&]<class To>(To*) { forward<T, To>(kernels, input, result); });
    });
}

void attend_backward_with(const AttentionKernels& kernels, const AttentionInput& input,
                          const at::Tensor& d_out, const at::Tensor& out, const at::Tensor& lse,
                          const AttentionGradients& gradients) {
    RINGSHARD_CHECK(has_numbers(input));
    RINGSHARD_CHECK(!gradients.adds || gradients.dq.scalar_type() == at::kFloat);
    const BackwardInput in{input, d_out, out, lse, gradients};
    with_type(input.q, [&]<class T>(T*) {
        with_type(gradients.dq, [&]<class To>(To*) { backward<T, To>(kernels, in); });
    });
}

void block_attention(const AttentionInput& input, const at::Tensor& out, const at::Tensor& lse) {
    attend_with(kernels_here(0)->attention, input, out, lse);
}

bool suits_block_attention_backward(const AttentionInput& input) {
    return !is_common(input.band) || input.form.cap > 0 ||
           input.k.size(0) * input.k.size(2) >= at::get_num_threads();
}

void block_attention_backward(const AttentionInput& input, const at::Tensor& d_out,
                              const at::Tensor& out, const at::Tensor& lse,
                              const AttentionGradients& gradients) {
    attend_backward_with(kernels_here(0)->attention, input, d_out, out, lse, gradients);
}

}  // namespace ringshard::ops
