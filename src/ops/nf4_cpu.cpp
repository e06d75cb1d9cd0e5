#include <algorithm>
#include <cmath>

#include "backends.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/base/simd.hpp"
#include "rows.hpp"

namespace ringshard::ops {

namespace {

constexpr float smallest_divisor = 1e-38F;

// The borders between values: a number belongs to the value whose upper border it does not exceed.
template <size_t n>
std::array<float, n - 1> borders_of(const std::array<float, n>& values) {
    std::array<float, n - 1> borders;
    for (size_t i = 0; i + 1 < n; ++i) borders[i] = (values[i] + values[i + 1]) / 2;
    return borders;
}

float largest_weight(std::span<const float> numbers) {
    float largest = 0;
    for (const float number : numbers) largest = std::max(largest, std::abs(number));
    return largest;
}

// Writes the codes of numbers between -1 and 1: compares every border with every number.
RINGSHARD_SIMD void name_values(uint8_t* __restrict codes, const float* __restrict numbers,
                                const float* __restrict borders, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        uint8_t code = 0;
        for (int border = 0; border < 15; ++border) code += numbers[i] > borders[border] ? 1 : 0;
        codes[i] = code;
    }
}

// Returns the scale of the block. A short block is divided by its scale, as bitsandbytes does it.
float quantize_block(std::span<const float> weights, const std::array<float, 15>& borders,
                     uint8_t* codes) {
    std::array<float, nf4_block> scaled{};
    std::array<uint8_t, nf4_block> of_weights{};
    float scale = largest_weight(weights);
    const bool is_short = std::ssize(weights) < nf4_block;
    if (is_short) scale = std::max(scale, smallest_divisor);
    const float factor = 1 / std::max(scale, smallest_divisor);
    for (size_t i = 0; i < weights.size(); ++i)
        scaled[i] = std::clamp(is_short ? weights[i] / scale : weights[i] * factor, -1.0F, 1.0F);
    name_values(of_weights.data(), scaled.data(), borders.data(), nf4_block);
    for (size_t i = 0; i < of_weights.size(); i += 2)
        codes[i / 2] = static_cast<uint8_t>(of_weights[i] << 4 | of_weights[i + 1]);
    return scale;
}

// bitsandbytes makes each decade of 2^n equal steps between 0.1 and 1 times a power of ten, and
// takes their middles. torch.linspace goes from both ends to the middle, with one rounding a step.
std::array<float, 256> make_scale_values() {
    std::array<float, 256> values{};
    size_t made = 0;
    const auto add = [&](float value) { values[made++] = value; };
    constexpr float first = 0.1F;
    for (int decade = 0; decade < 7; ++decade) {
        const int steps = 1 << decade;
        const float step = (1 - first) / static_cast<float>(steps);
        const auto border = [&](int i) {
            return i < (steps + 1) / 2 ? std::fma(step, static_cast<float>(i), first)
                                       : std::fma(-step, static_cast<float>(steps - i), 1.0F);
        };
        const auto power = static_cast<float>(std::pow(10.0, decade - 6));
        for (int i = 0; i < steps; ++i) {
            const float value = (border(i) + border(i + 1)) / 2 * power;
            add(value);
            add(-value);
        }
    }
    add(0);
    add(1);
    std::ranges::sort(values);
    return values;
}

template <class T>
void put_block(T* __restrict into, const uint8_t* __restrict codes, float scale, int64_t count) {
    std::array<T, 16> values;
    for (size_t i = 0; i < values.size(); ++i) store(values[i], nf4_values[i] * scale);
    const int64_t pairs = count / 2;
    for (int64_t i = 0; i < pairs; ++i) {
        into[2 * i] = values[codes[i] >> 4];
        into[2 * i + 1] = values[codes[i] & 15];
    }
    if (count % 2 == 1) into[count - 1] = values[codes[pairs] >> 4];
}

// The scales in fp32, one by one.
class Scales {
public:
    explicit Scales(const Nf4Matrix& matrix) {
        if (matrix.scales.scalar_type() == at::kFloat) {
            plain_ = data<float>(matrix.scales);
            return;
        }
        codes_ = data<uint8_t>(matrix.scales);
        nested_ = data<float>(matrix.nested_scales);
        mean_ = *data<float>(matrix.mean);
    }
    // The product is exact in double precision: so it is rounded by itself, and is no part of a
    // fused sum.
    float operator[](int64_t block) const {
        if (plain_ != nullptr) return plain_[block];
        const double value = values_[codes_[block]];
        return static_cast<float>(value * nested_[block / nf4_nested_block]) + mean_;
    }

private:
    const float* plain_ = nullptr;
    const uint8_t* codes_ = nullptr;
    const float* nested_ = nullptr;
    float mean_ = 0;
    const std::array<float, 256>& values_ = nf4_scale_values();
};

}  // namespace

const std::array<float, 256>& nf4_scale_values() {
    static const std::array<float, 256> values = make_scale_values();
    return values;
}

void quantize_nf4(std::span<const float> weights, std::span<uint8_t> codes,
                  std::span<float> scales) {
    const int64_t blocks = (std::ssize(weights) + nf4_block - 1) / nf4_block;
    RINGSHARD_CHECK(std::ssize(scales) == blocks && std::ssize(codes) == blocks * nf4_block_bytes);
    const std::array<float, 15> borders = borders_of(nf4_values);
    at::parallel_for(0, blocks, grain(nf4_block), [&](int64_t begin, int64_t end) {
        for (int64_t block = begin; block < end; ++block) {
            const auto first = narrow<size_t>(block * nf4_block);
            const size_t count = std::min<size_t>(nf4_block, weights.size() - first);
            scales[narrow<size_t>(block)] = quantize_block(weights.subspan(first, count), borders,
                                                           codes.data() + block * nf4_block_bytes);
        }
    });
}

NestedScales quantize_scales(std::span<const float> scales) {
    double sum = 0;
    for (const float scale : scales) sum += scale;
    NestedScales nested{std::vector<uint8_t>(scales.size()), {}, 0};
    nested.mean = static_cast<float>(sum) / static_cast<float>(scales.size());
    const std::array<float, 255> borders = borders_of(nf4_scale_values());
    std::vector<float> rest(scales.begin(), scales.end());
    for (float& scale : rest) scale -= nested.mean;
    for (size_t first = 0; first < rest.size(); first += nf4_nested_block) {
        const size_t count = std::min<size_t>(nf4_nested_block, rest.size() - first);
        const bool is_short = count < nf4_nested_block;
        float largest = largest_weight(std::span(rest).subspan(first, count));
        if (is_short) largest = std::max(largest, smallest_divisor);
        nested.scales.push_back(largest);
        const float factor = 1 / std::max(largest, smallest_divisor);
        for (size_t i = first; i < first + count; ++i) {
            const float scaled =
                std::clamp(is_short ? rest[i] / largest : rest[i] * factor, -1.0F, 1.0F);
            nested.codes[i] =
                narrow<uint8_t>(std::ranges::lower_bound(borders, scaled) - borders.begin());
        }
    }
    return nested;
}

namespace cpu {

void dequantize_nf4(const at::Tensor& into, const Nf4Matrix& from) {
    const int64_t blocks = (into.numel() + nf4_block - 1) / nf4_block;
    RINGSHARD_CHECK(from.codes.numel() == blocks * nf4_block_bytes &&
                    from.scales.numel() == blocks);
    const Scales scales(from);
    const auto* const codes = data<const uint8_t>(from.codes);
    with_type(into, [&]<class T>(T*) {
        T* const weights = data<T>(into);
        at::parallel_for(0, blocks, grain(nf4_block), [&](int64_t begin, int64_t end) {
            for (int64_t block = begin; block < end; ++block)
                put_block(weights + block * nf4_block, codes + block * nf4_block_bytes,
                          scales[block], std::min(nf4_block, into.numel() - block * nf4_block));
        });
    });
}

}  // namespace cpu

}  // namespace ringshard::ops
