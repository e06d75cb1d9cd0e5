#include "compare.hpp"

using namespace ringshard::ops::gpu;

namespace ringshard::test {

namespace {

constexpr int64_t first_place = 5;
constexpr uint32_t step = 3;

void squares(int64_t count) {
    const int64_t blocks = (count + elements_per_square - 1) / elements_per_square;
    compare("sum_squares of " + std::to_string(count), [&](const Queue& queue, Memory& memory) {
        sum_squares(queue, memory.numbers<float>(count), count, memory.unset<float>(blocks));
    });
}

// A second moment of [1, 5).
template <class Moment>
Moment* positive(Memory& memory, int64_t count) {
    auto* const numbers = memory.numbers<Moment>(count);
    for (int64_t i = 0; i < count; ++i) numbers[i] = Moment(static_cast<float>(numbers[i]) + 3);
    return numbers;
}

template <class Moment>
void updates(int64_t count) {
    compare(named<Moment>("adamw", count), [&](const Queue& queue, Memory& memory) {
        adamw(queue, {.weights = memory.numbers<float>(count),
                      .moment_type = number_type<Moment>,
                      .first_moment = memory.numbers<Moment>(count),
                      .second_moment = positive<Moment>(memory, count),
                      .gradient = memory.numbers<float>(count),
                      .copy = memory.unset<bf16>(count),
                      .count = count,
                      .first_place = first_place,
                      .step = step,
                      .gradient_scale = 1,
                      .decay = 1,
                      .first_keeps = 0.9F,
                      .first_takes = 0.1F,
                      .second_keeps = 0.99F,
                      .second_takes = 0.01F,
                      .step_size = 1e-3F,
                      .root_scale = 1,
                      .epsilon = 1e-8F});
    });
    compare(named<Moment>("lion", count), [&](const Queue& queue, Memory& memory) {
        lion(queue, {.weights = memory.numbers<float>(count),
                     .moment_type = number_type<Moment>,
                     .moment = memory.numbers<Moment>(count),
                     .gradient = memory.numbers<float>(count),
                     .copy = memory.unset<bf16>(count),
                     .count = count,
                     .first_place = first_place,
                     .step = step,
                     .gradient_scale = 1,
                     .decay = 1,
                     .direction_keeps = 0.9F,
                     .direction_takes = 0.1F,
                     .moment_keeps = 0.99F,
                     .moment_takes = 0.01F,
                     .step_size = 1e-3F});
    });
}

}  // namespace

// Two teams each.
void flat_cases(Part part) {
    squares(elements_per_square + 100);
    for_types(part, [](auto* type) { updates<std::remove_pointer_t<decltype(type)>>(5000); });
}

}  // namespace ringshard::test
