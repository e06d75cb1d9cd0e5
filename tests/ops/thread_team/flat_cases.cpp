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

template <class Moment>
void updates_by_squares(int64_t count) {
    compare(named<Moment>("rmsprop", count), [&](const Queue& queue, Memory& memory) {
        rmsprop(queue, {.weights = memory.numbers<float>(count),
                        .moment_type = number_type<Moment>,
                        .moment = positive<Moment>(memory, count),
                        .gradient = memory.numbers<float>(count),
                        .copy = memory.unset<bf16>(count),
                        .count = count,
                        .first_place = first_place,
                        .step = step,
                        .gradient_scale = 1,
                        .decay = 0.1F,
                        .keeps = 0.99F,
                        .takes = 0.01F,
                        .epsilon = 1e-8F,
                        .step_size = 1e-3F});
    });
}

template <class Moment>
void updates_without_adaption(int64_t count) {
    for (const bool has_momentum : {true, false})
        compare(named<Moment>(has_momentum ? "sgd with momentum" : "sgd", count),
                [&](const Queue& queue, Memory& memory) {
                    sgd(queue, {.weights = memory.numbers<float>(count),
                                .moment_type = number_type<Moment>,
                                .momentum = has_momentum ? memory.numbers<Moment>(count) : nullptr,
                                .gradient = memory.numbers<float>(count),
                                .copy = memory.unset<bf16>(count),
                                .count = count,
                                .first_place = first_place,
                                .step = step,
                                .gradient_scale = 1,
                                .decay = 0.1F,
                                .momentum_keeps = has_momentum ? 0.9F : 0.0F,
                                .momentum_takes = 1,
                                .nesterov = has_momentum,
                                .step_size = 1e-3F});
                });
}

template <class Copy>
void updates_without_schedule(int64_t count) {
    for (const bool has_moment : {true, false})
        for (const bool has_gradient : {true, false})
            compare(named<Copy>("schedule_free", count), [&](const Queue& queue, Memory& memory) {
                schedule_free(
                    queue, {.weights = memory.numbers<float>(count),
                            .difference = memory.numbers<float>(count),
                            .second_moment = has_moment ? positive<float>(memory, count) : nullptr,
                            .gradient = has_gradient ? memory.numbers<float>(count) : nullptr,
                            .copy_type = number_type<Copy>,
                            .copy = memory.unset<Copy>(count),
                            .count = count,
                            .gradient_scale = 1,
                            .decay = 0.1F,
                            .second_keeps = 0.99F,
                            .second_takes = 0.01F,
                            .root_scale = 1,
                            .epsilon = 1e-8F,
                            .step_size = 1e-3F,
                            .average = 0.25F,
                            .ahead = 0.1F});
            });
}

constexpr int64_t numbers_of_block = 256;

// Codes in some order, and as many values as there are codes, from -1 or 0 to 1.
CodedMoment coded(Memory& memory, int64_t blocks, bool is_signed) {
    std::vector<uint8_t> codes;
    for (int64_t i = 0; i < blocks * numbers_of_block; ++i)
        codes.push_back(static_cast<uint8_t>(i * 37));
    std::vector<float> values;
    for (int code = 0; code < numbers_of_block; ++code) {
        const float share = static_cast<float>(code) / (numbers_of_block - 1);
        values.push_back(is_signed ? 2 * share - 1 : share);
    }
    return {memory.values(codes),
            memory.values(std::vector<float>(static_cast<size_t>(blocks), 3.0F)),
            memory.values(values)};
}

void updates_in_eight_bits(int64_t blocks) {
    const int64_t count = blocks * numbers_of_block;
    compare("coded_adamw", [&](const Queue& queue, Memory& memory) {
        coded_adamw(queue, {.weights = memory.numbers<float>(count),
                            .first = coded(memory, blocks, true),
                            .second = coded(memory, blocks, false),
                            .gradient = memory.numbers<float>(count),
                            .copy = memory.unset<bf16>(count),
                            .blocks = blocks,
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
    compare("coded_lion", [&](const Queue& queue, Memory& memory) {
        coded_lion(queue, {.weights = memory.numbers<float>(count),
                           .moment = coded(memory, blocks, true),
                           .gradient = memory.numbers<float>(count),
                           .copy = memory.unset<bf16>(count),
                           .blocks = blocks,
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
    for_types(part, [](auto* type) {
        using Moment = std::remove_pointer_t<decltype(type)>;
        updates<Moment>(5000);
        updates_by_squares<Moment>(5000);
        updates_without_adaption<Moment>(5000);
        updates_without_schedule<Moment>(5000);
    });
    updates_in_eight_bits(2);
}

}  // namespace ringshard::test
