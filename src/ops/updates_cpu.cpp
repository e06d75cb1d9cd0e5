#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "backends.hpp"
#include "number.hpp"
#include "ringshard/base/simd.hpp"
#include "rows.hpp"

namespace ringshard::ops::cpu {

namespace {

RINGSHARD_INLINE void store_moment(float& place, float value, uint32_t) { place = value; }
// chance: 16 random bits. Rounds up if the bits that are cut off exceed them.
RINGSHARD_INLINE void store_moment(bf16& place, float value, uint32_t chance) {
    place.x = static_cast<uint16_t>((std::bit_cast<uint32_t>(value) + chance) >> 16);
}

RINGSHARD_INLINE void store_copy(float*, int64_t, float) {}  // the weights themselves are used
RINGSHARD_INLINE void store_copy(bf16* copy, int64_t i, float value) { store(copy[i], value); }

// copy: of bf16, or a null pointer of float.
template <class Rule, class Copy, class... Moments>
RINGSHARD_SIMD void update_block(Rule rule, float* __restrict w, const float* __restrict g,
                                 Copy* __restrict copy, uint32_t place, uint32_t step,
                                 int64_t count, Moments* __restrict... moments) {
    for (int64_t i = 0; i < count; ++i) {
        float numbers[sizeof...(Moments) + 1]{load(moments[i])...};
        w[i] = rule(w[i], g[i], numbers);
        store_copy(copy, i, w[i]);
        [[maybe_unused]] uint32_t chance = random_bits(place + static_cast<uint32_t>(i), step);
        [[maybe_unused]] const float* number = numbers;
        ((store_moment(moments[i], *number++, chance & 0xffffU), chance >>= 16), ...);
    }
}

template <class Rule>
void update_range(const UpdateBuffers& buffers, const Rule& rule) {
    RINGSHARD_CHECK(buffers.moments.size() == Rule::num_moments);
    float* const w = data<float>(buffers.weights);
    const float* const g = data<float>(buffers.gradient);
    const auto update = [&]<class Copy, class... Moments>(Copy* copy, Moments*... moments) {
        for_blocks(buffers.weights.numel(), [&](int64_t i, int64_t count) {
            update_block(rule, w + i, g + i, copy == nullptr ? copy : copy + i,
                         static_cast<uint32_t>(buffers.first_place + i),
                         static_cast<uint32_t>(buffers.step), count, moments + i...);
        });
    };
    const auto with_copy = [&](auto*... moments) {
        if (buffers.copy.defined())
            update(data<bf16>(buffers.copy), moments...);
        else
            update(static_cast<float*>(nullptr), moments...);
    };
    if constexpr (Rule::num_moments == 0)
        with_copy();
    else
        with_type(buffers.moments.front(), [&]<class Moment>(Moment*) {
            [&]<size_t... number>(std::index_sequence<number...>) {
                with_copy(data<Moment>(buffers.moments[number])...);
            }
            (std::make_index_sequence<Rule::num_moments>());
        });
}

using BlockNumbers = std::array<float, moment_block>;

// The codes of one moment on the host.
class Coder {
public:
    explicit Coder(const CodedMoment& moment)
        : codes_(moment.codes.data_ptr<uint8_t>()), maxima_(data<float>(moment.maxima)) {
        const float* const values = data<float>(moment.values);
        std::copy_n(values, moment_block, values_.begin());
        for (size_t code = 0; code + 1 < values_.size(); ++code)
            middles_[code] = (values_[code] + values_[code + 1]) / 2;
        middles_.back() = std::numeric_limits<float>::infinity();
    }

    void read(int64_t block, BlockNumbers& numbers) const {
        const uint8_t* const codes = codes_ + block * moment_block;
        for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = values_[codes[i]] * maxima_[block];
    }
    void write(int64_t block, const BlockNumbers& numbers) const {
        float most = 0;
        for (const float number : numbers) most = std::max(most, std::abs(number));
        maxima_[block] = most;
        const float scale = 1.0F / std::max(most, 1e-38F);
        uint8_t* const codes = codes_ + block * moment_block;
        for (size_t i = 0; i < numbers.size(); ++i)
            codes[i] = nearest(std::clamp(numbers[i] * scale, -1.0F, 1.0F));
    }

private:
    // The number of middles below the value, in eight steps.
    uint8_t nearest(float value) const {
        size_t code = 0;
        for (size_t step = moment_block / 2; step > 0; step /= 2)
            code += middles_[code + step - 1] < value ? step : 0;
        return static_cast<uint8_t>(code);
    }

    uint8_t* codes_;
    float* maxima_;
    BlockNumbers values_;
    BlockNumbers middles_;
};

void round_copy(const at::Tensor& copy, const float* weights, int64_t first) {
    if (!copy.defined()) return;
    bf16* const into = data<bf16>(copy) + first;
    for (int64_t i = 0; i < moment_block; ++i) store(into[i], weights[first + i]);
}

template <class Rule>
void update_coded(const CodedUpdateBuffers& buffers, const Rule& rule) {
    constexpr size_t num_moments = Rule::num_moments;
    RINGSHARD_CHECK(num_moments > 0 && buffers.moments.size() == num_moments);
    RINGSHARD_CHECK(buffers.weights.numel() % moment_block == 0);
    float* const w = data<float>(buffers.weights);
    const float* const g = data<float>(buffers.gradient);
    const std::vector<Coder> coders(buffers.moments.begin(), buffers.moments.end());
    const auto update = [&](int64_t block) {
        std::array<BlockNumbers, num_moments> moments;
        for (size_t moment = 0; moment < num_moments; ++moment)
            coders[moment].read(block, moments[moment]);
        const int64_t begin = block * moment_block;
        for (int64_t i = 0; i < moment_block; ++i) {
            float numbers[num_moments + 1];
            for (size_t moment = 0; moment < num_moments; ++moment)
                numbers[moment] = moments[moment][static_cast<size_t>(i)];
            w[begin + i] = rule(w[begin + i], g[begin + i], numbers);
            for (size_t moment = 0; moment < num_moments; ++moment)
                moments[moment][static_cast<size_t>(i)] = numbers[moment];
        }
        for (size_t moment = 0; moment < num_moments; ++moment)
            coders[moment].write(block, moments[moment]);
        round_copy(buffers.copy, w, begin);
    };
    at::parallel_for(0, buffers.weights.numel() / moment_block, 64,
                     [&](int64_t first, int64_t last) {
                         for (int64_t block = first; block < last; ++block) update(block);
                     });
}

}  // namespace

void update(const UpdateBuffers& buffers, const UpdateRule& rule) {
    std::visit([&](const auto& known) { update_range(buffers, known); }, rule);
}

void coded_update(const CodedUpdateBuffers& buffers, const UpdateRule& rule) {
    std::visit([&](const auto& known) { update_coded(buffers, known); }, rule);
}

}  // namespace ringshard::ops::cpu
