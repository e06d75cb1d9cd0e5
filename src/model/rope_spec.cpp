#include "ringshard/model/rope_spec.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ringshard::model {

namespace {

constexpr double full_turn = 2 * std::numbers::pi;

// Fast heads stay, slow ones turn `factor` times slower, those between are mixed.
at::Tensor llama3_frequencies(const RopeSpec& rope, const at::Tensor& plain) {
    const double low = rope.low_frequency_factor;
    const double high = rope.high_frequency_factor;
    const double longest = rope.original_positions / low;
    const double shortest = rope.original_positions / high;
    const at::Tensor wavelengths = plain.reciprocal().mul(full_turn);
    const at::Tensor slowed = at::where(wavelengths > longest, plain / rope.factor, plain);
    const at::Tensor share =
        (wavelengths.reciprocal().mul(rope.original_positions) - low) / (high - low);
    const at::Tensor mixed = (1 - share) * slowed / rope.factor + share * slowed;
    const at::Tensor is_between =
        at::logical_and(wavelengths.ge(shortest), wavelengths.le(longest));
    return at::where(is_between, mixed, slowed);
}

// The dimension that turns so many times within the original context.
double dimension_of(double rotations, const RopeSpec& rope, double head_dim) {
    return head_dim * std::log(rope.original_positions / (rotations * full_turn)) /
           (2 * std::log(rope.theta));
}

at::Tensor yarn_frequencies(const RopeSpec& rope, const at::Tensor& powers, int64_t head_dim) {
    const auto width = static_cast<double>(head_dim);
    double low = dimension_of(rope.fast_rotations, rope, width);
    double high = dimension_of(rope.slow_rotations, rope, width);
    if (rope.rounds_dimensions) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, width - 1);
    if (low == high) high += 0.001;
    const at::Tensor dimensions = at::arange(0, head_dim / 2, powers.options());
    const at::Tensor stays = 1 - ((dimensions - low) / (high - low)).clamp(0, 1);
    const at::Tensor slowed = (powers * rope.factor).reciprocal();
    return slowed * (1 - stays) + powers.reciprocal() * stays;
}

at::Tensor longrope_frequencies(const RopeSpec& rope, const at::Tensor& powers, Document document) {
    const bool is_long = document == Document::is_long;
    const std::vector<double>& given = is_long ? rope.long_factors : rope.short_factors;
    const std::vector<float> factors(given.begin(), given.end());
    return (at::tensor(factors, powers.options()) * powers).reciprocal();
}

at::Tensor proportional_frequencies(const RopeSpec& rope, const at::Tensor& powers) {
    const auto turning =
        static_cast<int64_t>(static_cast<double>(powers.size(0)) * rope.rotated_part);
    const at::Tensor frequencies = powers.reciprocal().div_(rope.factor);
    frequencies.slice(0, turning).zero_();
    return frequencies;
}

}  // namespace

int64_t RopeSpec::rotated_width(int64_t head_dim) const {
    if (rotated_elements > 0) return rotated_elements;
    if (kind == RopeKind::proportional) return head_dim;
    return static_cast<int64_t>(static_cast<double>(head_dim) * rotated_part);
}

at::Tensor inverse_frequencies(const RopeSpec& rope, int64_t head_dim, Document document) {
    const int64_t width = rope.rotated_width(head_dim);
    const at::Tensor exponents =
        at::arange(0, width, 2, at::TensorOptions(at::kFloat)) / static_cast<double>(width);
    const at::Tensor powers = at::pow(rope.theta, exponents);
    switch (rope.kind) {
        case RopeKind::plain: break;
        case RopeKind::linear: return powers.reciprocal() / rope.factor;
        case RopeKind::llama3: return llama3_frequencies(rope, powers.reciprocal());
        case RopeKind::yarn: return yarn_frequencies(rope, powers, width);
        case RopeKind::longrope: return longrope_frequencies(rope, powers, document);
        case RopeKind::proportional: return proportional_frequencies(rope, powers);
    }
    return powers.reciprocal();
}

}  // namespace ringshard::model
