#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <variant>

// Optimizers that update each weight by itself: a rule returns the new weight, and replaces the
// weight's moments. CPUs and GPUs run the same functions, in fp32.
namespace ringshard::ops {

// Of every rule.
struct UpdateStep {
    double learning_rate;
    double weight_decay;
    double gradient_scale;  // from clipping
    int64_t number;         // from 1
};

class AdamWRule {
public:
    static constexpr int num_moments = 2;
    AdamWRule(const UpdateStep& step, double beta1, double beta2, double epsilon)
        : scale_(static_cast<float>(step.gradient_scale)),
          decay_(static_cast<float>(1 - step.learning_rate * step.weight_decay)),
          first_keeps_(static_cast<float>(beta1)),
          first_takes_(static_cast<float>(1 - beta1)),
          second_keeps_(static_cast<float>(beta2)),
          second_takes_(static_cast<float>(1 - beta2)),
          step_size_(static_cast<float>(step.learning_rate / bias(beta1, step))),
          root_scale_(static_cast<float>(1 / std::sqrt(bias(beta2, step)))),
          epsilon_(static_cast<float>(epsilon)) {}

    [[gnu::always_inline]] constexpr float operator()(float weight, float gradient,
                                                      float* moments) const {
        const float scaled = gradient * scale_;
        moments[0] = moments[0] * first_keeps_ + scaled * first_takes_;
        moments[1] = moments[1] * second_keeps_ + scaled * scaled * second_takes_;
        return weight * decay_ -
               step_size_ * moments[0] / (std::sqrt(moments[1]) * root_scale_ + epsilon_);
    }

private:
    // Moments begin at zero: their means are too small by this factor.
    static double bias(double beta, const UpdateStep& step) {
        return 1 - std::pow(beta, static_cast<double>(step.number));
    }

    float scale_;
    float decay_;
    float first_keeps_, first_takes_;
    float second_keeps_, second_takes_;
    float step_size_;
    float root_scale_;
    float epsilon_;
};

// AdamW whose decay is added to the gradient.
class AdamRule {
public:
    static constexpr int num_moments = AdamWRule::num_moments;
    AdamRule(const UpdateStep& step, double beta1, double beta2, double epsilon)
        : adamw_({step.learning_rate, 0, 1, step.number}, beta1, beta2, epsilon),
          scale_(static_cast<float>(step.gradient_scale)),
          decay_(static_cast<float>(step.weight_decay)) {}

    [[gnu::always_inline]] constexpr float operator()(float weight, float gradient,
                                                      float* moments) const {
        return adamw_(weight, gradient * scale_ + weight * decay_, moments);
    }

private:
    AdamWRule adamw_;
    float scale_;
    float decay_;
};

// The direction is the sign of a mean.
class LionRule {
public:
    static constexpr int num_moments = 1;
    // beta1: of the mean whose sign counts; beta2: of the mean that is kept.
    LionRule(const UpdateStep& step, double beta1, double beta2)
        : scale_(static_cast<float>(step.gradient_scale)),
          decay_(static_cast<float>(1 - step.learning_rate * step.weight_decay)),
          direction_keeps_(static_cast<float>(beta1)),
          direction_takes_(static_cast<float>(1 - beta1)),
          moment_keeps_(static_cast<float>(beta2)),
          moment_takes_(static_cast<float>(1 - beta2)),
          step_size_(static_cast<float>(step.learning_rate)) {}

    [[gnu::always_inline]] constexpr float operator()(float weight, float gradient,
                                                      float* moments) const {
        const float scaled = gradient * scale_;
        const float mean = moments[0] * direction_keeps_ + scaled * direction_takes_;
        const float direction = static_cast<float>(mean > 0) - static_cast<float>(mean < 0);
        moments[0] = moments[0] * moment_keeps_ + scaled * moment_takes_;
        return weight * decay_ - step_size_ * direction;
    }

private:
    float scale_;
    float decay_;
    float direction_keeps_, direction_takes_;
    float moment_keeps_, moment_takes_;
    float step_size_;
};

// torch.optim.RMSprop; the moment is a mean of squares.
class RmspropRule {
public:
    static constexpr int num_moments = 1;
    RmspropRule(const UpdateStep& step, double alpha, double epsilon)
        : scale_(static_cast<float>(step.gradient_scale)),
          decay_(static_cast<float>(step.weight_decay)),
          keeps_(static_cast<float>(alpha)),
          takes_(static_cast<float>(1 - alpha)),
          epsilon_(static_cast<float>(epsilon)),
          step_size_(static_cast<float>(step.learning_rate)) {}

    [[gnu::always_inline]] constexpr float operator()(float weight, float gradient,
                                                      float* moments) const {
        const float decayed = gradient * scale_ + weight * decay_;
        moments[0] = moments[0] * keeps_ + decayed * decayed * takes_;
        return weight - step_size_ * decayed / (std::sqrt(moments[0]) + epsilon_);
    }

private:
    float scale_;
    float decay_;
    float keeps_, takes_;
    float epsilon_;
    float step_size_;
};

// torch.optim.Adagrad; the moment is a sum of squares.
class AdagradRule {
public:
    static constexpr int num_moments = 1;
    AdagradRule(const UpdateStep& step, double rate_decay, double epsilon)
        : scale_(static_cast<float>(step.gradient_scale)),
          decay_(static_cast<float>(step.weight_decay)),
          epsilon_(static_cast<float>(epsilon)),
          step_size_(static_cast<float>(step.learning_rate /
                                        (1 + static_cast<double>(step.number - 1) * rate_decay))) {}

    [[gnu::always_inline]] constexpr float operator()(float weight, float gradient,
                                                      float* moments) const {
        const float decayed = gradient * scale_ + weight * decay_;
        moments[0] = moments[0] + decayed * decayed;
        return weight - step_size_ * decayed / (std::sqrt(moments[0]) + epsilon_);
    }

private:
    float scale_;
    float decay_;
    float epsilon_;
    float step_size_;
};

// torch.optim.SGD without momentum.
class SgdRule {
public:
    static constexpr int num_moments = 0;
    explicit SgdRule(const UpdateStep& step)
        : scale_(static_cast<float>(step.gradient_scale)),
          decay_(static_cast<float>(step.weight_decay)),
          step_size_(static_cast<float>(step.learning_rate)) {}

    [[gnu::always_inline]] constexpr float operator()(float weight, float gradient, float*) const {
        return weight - step_size_ * (gradient * scale_ + weight * decay_);
    }

private:
    float scale_;
    float decay_;
    float step_size_;
};

// torch.optim.SGD with momentum: that of the first step is the gradient.
class MomentumRule {
public:
    static constexpr int num_moments = 1;
    MomentumRule(const UpdateStep& step, double momentum, double dampening, bool nesterov)
        : scale_(static_cast<float>(step.gradient_scale)),
          decay_(static_cast<float>(step.weight_decay)),
          keeps_(static_cast<float>(momentum)),
          takes_(step.number == 1 ? 1.0F : static_cast<float>(1 - dampening)),
          nesterov_(nesterov),
          step_size_(static_cast<float>(step.learning_rate)) {}

    [[gnu::always_inline]] constexpr float operator()(float weight, float gradient,
                                                      float* moments) const {
        const float decayed = gradient * scale_ + weight * decay_;
        const float sum = moments[0] * keeps_ + decayed * takes_;
        moments[0] = sum;
        return weight - step_size_ * (nesterov_ ? decayed + keeps_ * sum : sum);
    }

private:
    float scale_;
    float decay_;
    float keeps_, takes_;
    bool nesterov_;
    float step_size_;
};

using UpdateRule =
    std::variant<AdamWRule, AdamRule, LionRule, RmspropRule, AdagradRule, SgdRule, MomentumRule>;

inline constexpr int most_moments = 2;

inline size_t num_moments_of(const UpdateRule& rule) {
    return std::visit([](const auto& known) -> size_t { return known.num_moments; }, rule);
}

// 32 bits that look random, of a place and a step.
[[gnu::always_inline]] constexpr uint32_t random_bits(uint32_t place, uint32_t step) {
    uint32_t bits = place * 0x9e3779b9U ^ step;
    bits = (bits ^ bits >> 16) * 0x85ebca6bU;
    bits = (bits ^ bits >> 13) * 0xc2b2ae35U;
    return bits ^ bits >> 16;
}

}  // namespace ringshard::ops
