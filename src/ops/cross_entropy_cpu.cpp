#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

#include "backends.hpp"
#include "ringshard/base/simd.hpp"
#include "ringshard/ops/cross_entropy.hpp"
#include "rows.hpp"

namespace ringshard::ops::cpu {

namespace {

struct RowSums {
    double loss;
    double entropy;
    bool is_correct;
    float largest;
    double log_sum;  // log of the sum of e^(logit - largest)
    double weight;   // factor of the gradient
};

// Logits whose fp32 sums are added in double. In one sum over a vocabulary, fp32 loses the small
// terms: at 150,000 entries the loss came out 1e-5 too low.
constexpr int64_t block_of_sum = 512;

template <class T>
RINGSHARD_SIMD float largest_of(const T* __restrict logits, int64_t width) {
    float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < width; ++i) largest = std::max(largest, load(logits[i]));
    return largest;
}

// Sums of e and of e * (logit - largest), where e = e^(logit - largest).
struct ExponentialSums {
    double of_e = 0;
    double weighted = 0;
};

template <class T>
RINGSHARD_SIMD ExponentialSums sum_row(const T* __restrict logits, float largest, int64_t width) {
    ExponentialSums sums;
    for (int64_t begin = 0; begin < width; begin += block_of_sum) {
        const int64_t end = std::min(width, begin + block_of_sum);
        float s = 0;
        float w = 0;
#pragma omp simd reduction(+ : s, w)
        for (int64_t i = begin; i < end; ++i) {
            const float below = load(logits[i]) - largest;
            const float e = exponential_of_small(below);
            s += e;
            w += e * below;
        }
        sums.of_e += static_cast<double>(s);
        sums.weighted += static_cast<double>(w);
    }
    return sums;
}

template <class T>
RINGSHARD_SIMD double sum_below(const T* __restrict logits, float largest, int64_t width) {
    double sum = 0;
    for (int64_t begin = 0; begin < width; begin += block_of_sum) {
        const int64_t end = std::min(width, begin + block_of_sum);
        float s = 0;
#pragma omp simd reduction(+ : s)
        for (int64_t i = begin; i < end; ++i) s += load(logits[i]) - largest;
        sum += static_cast<double>(s);
    }
    return sum;
}

// scale * p - everywhere
template <class T>
RINGSHARD_SIMD void gradient_row(T* __restrict logits, float largest, float log_sum, float scale,
                                 float everywhere, int64_t width) {
    for (int64_t i = 0; i < width; ++i)
        store(logits[i],
              scale * exponential_of_small(load(logits[i]) - largest - log_sum) - everywhere);
}

// The first of equals is the most likely token, as argmax says.
template <class T>
bool is_first_largest(const T* logits, int64_t target, float largest) {
    if (load(logits[target]) != largest) return false;
    for (int64_t i = 0; i < target; ++i)
        if (load(logits[i]) == largest) return false;
    return true;
}

// Token t of the targets, and the factor of its loss.
struct Target {
    Target(const Targets& targets, int64_t t)
        : token(data<int64_t>(targets.tokens)[t]),
          weight(targets.weights.defined() ? data<float>(targets.weights)[t] : 1.0F) {}
    int64_t token;
    float weight;
};

template <class T>
RowSums sums_of(const T* logits, const Target& target_of, int64_t width, const LossForm& form) {
    const int64_t target = target_of.token;
    const float largest = largest_of(logits, width);
    const auto [sum, weighted] = sum_row(logits, largest, width);
    const double log_sum = std::log(sum);
    const double of_target =
        static_cast<double>(load(logits[target])) - static_cast<double>(largest);
    RowSums row{log_sum - of_target,
                log_sum - weighted / sum,
                is_first_largest(logits, target, largest),
                largest,
                log_sum,
                1.0};
    if (form.times_probability) {
        row.weight = std::exp(-row.loss);
        row.loss *= row.weight;
    }
    if (form.smoothing > 0) {
        const double mean = sum_below(logits, largest, width) / static_cast<double>(width);
        row.loss = (1 - form.smoothing) * row.loss + form.smoothing * row.weight * (log_sum - mean);
    }
    row.loss *= static_cast<double>(target_of.weight);
    row.weight *= static_cast<double>(target_of.weight);
    return row;
}

// Writes weight * scale * (p - the smoothed target) over the logits.
template <class T>
void write_gradient(T* logits, int64_t target, int64_t width, const RowSums& row, float scale,
                    const LossForm& form) {
    const float weighted = static_cast<float>(row.weight) * scale;
    const auto smoothing = static_cast<float>(form.smoothing);
    gradient_row(logits, row.largest, static_cast<float>(row.log_sum), weighted,
                 weighted * smoothing / static_cast<float>(width), width);
    store(logits[target], load(logits[target]) - weighted * (1 - smoothing));
}

template <class PerRow>
void for_tokens(const at::Tensor& logits, const at::Tensor& token_stats, PerRow per_row) {
    const int64_t tokens = logits.size(0);
    RINGSHARD_CHECK(token_stats.size(0) == tokens && token_stats.size(1) == stats_per_token);
    at::parallel_for(0, tokens, grain(4 * logits.size(1)), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
            const RowSums row = per_row(t);
            float* const numbers = data<float>(token_stats) + t * stats_per_token;
            numbers[0] = static_cast<float>(row.loss);
            numbers[1] = static_cast<float>(row.entropy);
            numbers[2] = row.is_correct ? 1.0F : 0.0F;
        }
    });
}

}  // namespace

void cross_entropy(const at::Tensor& logits, const Targets& targets, double gradient_scale,
                   const LossForm& form, const at::Tensor& token_stats) {
    const int64_t width = logits.size(1);
    const auto scale = static_cast<float>(gradient_scale);
    with_type(logits, [&]<class T>(T*) {
        for_tokens(logits, token_stats, [&](int64_t t) {
            T* row = data<T>(logits) + t * width;
            const Target target(targets, t);
            const RowSums of_row = sums_of(row, target, width, form);
            write_gradient(row, target.token, width, of_row, scale, form);
            return of_row;
        });
    });
}

void cross_entropy_value(const at::Tensor& logits, const Targets& targets, const LossForm& form,
                         const at::Tensor& token_stats) {
    const int64_t width = logits.size(1);
    with_type(logits, [&]<class T>(T*) {
        for_tokens(logits, token_stats, [&](int64_t t) {
            return sums_of(data<T>(logits) + t * width, Target(targets, t), width, form);
        });
    });
}

at::Tensor sum_of_tokens(const at::Tensor& token_stats) {
    const int64_t numbers_per_token = token_stats.size(1);
    at::Tensor sums = at::zeros({numbers_per_token}, token_stats.options().dtype(at::kDouble));
    auto* const sum = sums.mutable_data_ptr<double>();
    with_type(token_stats, [&]<class T>(T*) {
        for (int64_t t = 0; t < token_stats.size(0); ++t) {
            const T* const numbers = data<T>(token_stats) + t * numbers_per_token;
            for (int64_t i = 0; i < numbers_per_token; ++i) sum[i] += load(numbers[i]);
        }
    });
    return sums;
}

}  // namespace ringshard::ops::cpu
