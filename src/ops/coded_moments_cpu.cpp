#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "backends.hpp"
#include "number.hpp"
#include "rows.hpp"

namespace ringshard::ops::cpu {

namespace {

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

template <class Update>
void for_moment_blocks(const at::Tensor& weights, const Update& update) {
    RINGSHARD_CHECK(weights.numel() % moment_block == 0);
    at::parallel_for(0, weights.numel() / moment_block, 64, [&](int64_t first, int64_t last) {
        for (int64_t block = first; block < last; ++block) update(block, block * moment_block);
    });
}

void round_copy(const at::Tensor& copy, const float* weights, int64_t first) {
    if (!copy.defined()) return;
    bf16* const into = data<bf16>(copy) + first;
    for (int64_t i = 0; i < moment_block; ++i) store(into[i], weights[first + i]);
}

}  // namespace

void coded_adamw(const CodedAdamWBuffers& buffers, const AdamWStep& step) {
    const auto count = static_cast<double>(step.step);
    const auto scale = static_cast<float>(step.gradient_scale);
    const auto decay = static_cast<float>(1 - step.learning_rate * step.weight_decay);
    const auto beta1 = static_cast<float>(step.beta1);
    const auto takes1 = static_cast<float>(1 - step.beta1);
    const auto beta2 = static_cast<float>(step.beta2);
    const auto takes2 = static_cast<float>(1 - step.beta2);
    const auto rate = static_cast<float>(step.learning_rate / (1 - std::pow(step.beta1, count)));
    const auto root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(step.beta2, count)));
    const auto epsilon = static_cast<float>(step.epsilon);
    float* const w = data<float>(buffers.weights);
    const float* const g = data<float>(buffers.gradient);
    const Coder first(buffers.first);
    const Coder second(buffers.second);
    for_moment_blocks(buffers.weights, [&](int64_t block, int64_t begin) {
        BlockNumbers m;
        BlockNumbers v;
        first.read(block, m);
        second.read(block, v);
        for (size_t i = 0; i < m.size(); ++i) {
            const size_t at = static_cast<size_t>(begin) + i;
            const float gradient = g[at] * scale;
            m[i] = m[i] * beta1 + gradient * takes1;
            v[i] = v[i] * beta2 + gradient * gradient * takes2;
            w[at] = w[at] * decay - rate * m[i] / (std::sqrt(v[i]) * root_scale + epsilon);
        }
        first.write(block, m);
        second.write(block, v);
        round_copy(buffers.copy, w, begin);
    });
}

void coded_lion(const CodedLionBuffers& buffers, const LionStep& step) {
    const auto scale = static_cast<float>(step.gradient_scale);
    const auto decay = static_cast<float>(1 - step.learning_rate * step.weight_decay);
    const auto rate = static_cast<float>(step.learning_rate);
    const auto beta1 = static_cast<float>(step.beta1);
    const auto takes1 = static_cast<float>(1 - step.beta1);
    const auto beta2 = static_cast<float>(step.beta2);
    const auto takes2 = static_cast<float>(1 - step.beta2);
    float* const w = data<float>(buffers.weights);
    const float* const g = data<float>(buffers.gradient);
    const Coder moment(buffers.moment);
    for_moment_blocks(buffers.weights, [&](int64_t block, int64_t begin) {
        BlockNumbers m;
        moment.read(block, m);
        for (size_t i = 0; i < m.size(); ++i) {
            const size_t at = static_cast<size_t>(begin) + i;
            const float gradient = g[at] * scale;
            const float mean = m[i] * beta1 + gradient * takes1;
            w[at] = w[at] * decay -
                    rate * (static_cast<float>(mean > 0) - static_cast<float>(mean < 0));
            m[i] = m[i] * beta2 + gradient * takes2;
        }
        moment.write(block, m);
        round_copy(buffers.copy, w, begin);
    });
}

}  // namespace ringshard::ops::cpu
