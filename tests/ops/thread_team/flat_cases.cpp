#include "compare.hpp"

using namespace ringshard::ops;
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

constexpr UpdateStep settings{
    .learning_rate = 1e-3, .weight_decay = 0.1, .gradient_scale = 0.5, .number = step};

struct NamedRule {
    std::string name;
    UpdateRule rule;
    std::vector<bool> are_signed;  // moments; the others are squares
};

std::vector<NamedRule> rules() {
    return {{"adamw", AdamWRule(settings, 0.9, 0.99, 1e-8), {true, false}},
            {"adam", AdamRule(settings, 0.9, 0.99, 1e-8), {true, false}},
            {"lion", LionRule(settings, 0.9, 0.99), {true}},
            {"rmsprop", RmspropRule(settings, 0.99, 1e-8), {false}},
            {"adagrad", AdagradRule(settings, 0.1, 1e-10), {false}},
            {"sgd", SgdRule(settings), {}},
            {"momentum", MomentumRule(settings, 0.9, 0, true), {true}}};
}

template <class Moment>
void updates(int64_t count) {
    for (const NamedRule& rule : rules())
        compare(named<Moment>(rule.name.c_str(), count), [&](const Queue& queue, Memory& memory) {
            Update work{.weights = memory.numbers<float>(count),
                        .moment_type = number_type<Moment>,
                        .gradient = memory.numbers<float>(count),
                        .copy = memory.unset<bf16>(count),
                        .count = count,
                        .first_place = first_place,
                        .step = step};
            for (size_t i = 0; i < rule.are_signed.size(); ++i)
                work.moments[i] = rule.are_signed[i] ? memory.numbers<Moment>(count)
                                                     : positive<Moment>(memory, count);
            update(queue, work, rule.rule);
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
    for (const NamedRule& rule : rules()) {
        if (rule.are_signed.empty()) continue;
        compare(rule.name + " in eight bits", [&](const Queue& queue, Memory& memory) {
            CodedUpdate work{.weights = memory.numbers<float>(count),
                             .gradient = memory.numbers<float>(count),
                             .copy = memory.unset<bf16>(count),
                             .blocks = blocks};
            for (size_t i = 0; i < rule.are_signed.size(); ++i)
                work.moments[i] = coded(memory, blocks, rule.are_signed[i]);
            coded_update(queue, work, rule.rule);
        });
    }
}

}  // namespace

// Two teams each.
void flat_cases(Part part) {
    squares(elements_per_square + 100);
    for_types(part, [](auto* type) {
        using Moment = std::remove_pointer_t<decltype(type)>;
        updates<Moment>(5000);
        updates_without_schedule<Moment>(5000);
    });
    updates_in_eight_bits(2);
}

}  // namespace ringshard::test
