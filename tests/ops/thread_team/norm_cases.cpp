#include "compare.hpp"

using namespace ringshard::ops::gpu;

namespace ringshard::test {

namespace {

template <class T>
void norms(int64_t rows, int64_t width, const std::vector<size_t>& shifts = {0, 1}) {
    const auto forward = [&](Memory& memory) {
        return RmsNorm{.type = number_type<T>,
                       .x = memory.numbers<T>(rows * width),
                       .weight = memory.numbers<T>(width),
                       .y = memory.unset<T>(rows * width),
                       .inverse_rms = memory.unset<float>(rows),
                       .rows = rows,
                       .width = width,
                       .epsilon = 1e-6F,
                       .offset = 1};
    };
    const auto with_branch = [&](const Queue& queue, Memory& memory) {
        RmsNorm work = forward(memory);
        work.branch = memory.numbers<T>(rows * width);
        work.factor = 0.5F;
        rms_norm(queue, work);
        work.y = memory.unset<T>(rows * width);
        rms_norm_again(queue, work);
    };
    compare(named<T>("rms_norm of a sum", width), with_branch, shifts);
    const auto both_ways = [&](const Queue& queue, Memory& memory) {
        const RmsNorm work = forward(memory);
        rms_norm(queue, work);
        const int64_t ranges = num_row_ranges(rows, width);
        float* const d_weight = memory.unset<float>(ranges * width);
        rms_norm_backward(queue, {.type = number_type<T>,
                                  .dy = memory.numbers<T>(rows * width),
                                  .x = work.x,
                                  .weight = work.weight,
                                  .inverse_rms = work.inverse_rms,
                                  .dx = memory.numbers<T>(rows * width),
                                  .d_weight = d_weight,
                                  .rows = rows,
                                  .width = width,
                                  .offset = 1,
                                  .makes_normed = true});
        if (width > 64) return;  // 1,024 threads for every 32 columns
        add_rows(queue, memory.numbers<float>(width), d_weight, ranges, width);
    };
    compare(named<T>("rms_norm both ways", width), both_ways, shifts);
}

// Of more rows than teams: a team goes through several.
void backward_of_many_rows() {
    constexpr int64_t rows = 1100;
    constexpr int64_t width = 16;
    const auto work = [](const Queue& queue, Memory& memory) {
        rms_norm_backward(queue,
                          {.type = NumberType::bf16,
                           .dy = memory.numbers<bf16>(rows * width),
                           .x = memory.numbers<bf16>(rows * width),
                           .weight = memory.numbers<bf16>(width),
                           .inverse_rms = memory.numbers<float>(rows),
                           .dx = memory.numbers<bf16>(rows * width),
                           .d_weight = memory.unset<float>(num_row_ranges(rows, width) * width),
                           .rows = rows,
                           .width = width,
                           .offset = 0});
    };
    compare("rms_norm_backward of many rows", work, {0});
}

}  // namespace

void norm_cases(Part part) {
    norms<bf16>(3, 40);
    if (part == Part::some) return;
    norms<bf16>(5, 896);
    norms<float>(3, 37);
    norms<float>(3, 40);
    norms<float>(5, 896);
    // Teams of 256, 512 and 1,024 threads, with one and more packs for each.
    norms<bf16>(2, 1504);
    norms<float>(2, 1500);
    norms<bf16>(2, 2200);
    norms<float>(2, 2200);
    norms<bf16>(2, 4200);
    norms<float>(2, 4200);
    norms<bf16>(2, 8208, {0});
    backward_of_many_rows();
}

}  // namespace ringshard::test
