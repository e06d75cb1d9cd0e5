#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/where.h>

#include "distillation.hpp"

#include "ringshard/base/error.hpp"

namespace ringshard::model {

namespace {

// Probabilities of k tokens and, as the last column, of all others together, or of the k tokens
// alone, whose sum then is 1.
struct Buckets {
    at::Tensor log_probs;       // [n, k + 1], or [n, k]
    at::Tensor is_below_limit;  // [n, 1]: whether the others follow from the k tokens
};

// The sum of the k tokens stays below 1 by 1e-7, as in TRL.
Buckets buckets_of(const at::Tensor& log_probs, bool has_tail) {
    constexpr double limit = -1e-7;
    const at::Tensor log_sum = log_probs.logsumexp(1, true);
    if (!has_tail) return {log_probs - log_sum, {}};
    const at::Tensor tail = (-log_sum.clamp_max(limit).expm1()).log();
    return {at::cat({log_probs, tail}, 1), log_sum.lt(limit)};
}

struct Divergence {
    at::Tensor value;     // [n]
    at::Tensor gradient;  // by the student's log-probabilities of the k tokens: [n, k]
};

// Terms of the divergence, and their derivatives by the student's log-probabilities.
std::pair<at::Tensor, at::Tensor> terms_of(const at::Tensor& student, const at::Tensor& teacher,
                                           double beta) {
    const at::Tensor p = student.exp();
    const at::Tensor q = teacher.exp();
    if (beta == 0) return {q * (teacher - student), -q};
    if (beta == 1) return {p * (student - teacher), p * (student - teacher + 1)};
    constexpr double tiny = 1e-300;  // a token that neither takes adds nothing
    const at::Tensor log_mixture = ((1 - beta) * p + beta * q).clamp_min(tiny).log();
    const at::Tensor of_student = (1 - beta) * p * (student - log_mixture);
    return {beta * q * (teacher - log_mixture) + of_student, of_student};
}

Divergence divergence_of(const at::Tensor& student, const at::Tensor& teacher, double beta,
                         bool has_tail) {
    const Buckets of_student = buckets_of(student, has_tail);
    const auto [terms, derivatives] =
        terms_of(of_student.log_probs, buckets_of(teacher, has_tail).log_probs, beta);
    const int64_t k = student.size(1);
    const at::Tensor of_tokens = derivatives.narrow(1, 0, k);
    const at::Tensor p = of_student.log_probs.exp();
    if (!has_tail) return {terms.sum(1), of_tokens - p * of_tokens.sum(1, true)};
    // d tail / d token = -p(token) / p(tail)
    const at::Tensor per_tail =
        at::where(of_student.is_below_limit, derivatives.narrow(1, k, 1) / p.narrow(1, k, 1), 0.0);
    return {terms.sum(1), of_tokens - p.narrow(1, 0, k) * per_tail};
}

class DistillationObjective : public Objective {
public:
    explicit DistillationObjective(const Distillation& options) : options_(options) {}

    std::vector<FurtherNumber> further_numbers() const override {
        return {{"divergence"}, {"data_loss"}};
    }

    void learn(const at::Tensor& logits, const ObjectiveTargets& targets, double gradient_scale,
               const at::Tensor& token_stats) const override {
        const bool keeps_logits = options_.data_weight > 0 && options_.temperature != 1;
        const at::Tensor stats = value_of(logits, targets.data);
        const at::Tensor softened = options_.temperature == 1 ? logits
                                    : keeps_logits            ? logits / options_.temperature
                                                              : logits.div_(options_.temperature);
        if (!targets.stored_tokens.defined()) {
            // A plan; the stored numbers of a token are few beside its logits.
            RINGSHARD_CHECK(logits.is_meta());
            return;
        }
        const Student student = student_of(softened, targets, stats);
        const Divergence divergence =
            divergence_of(student.of_stored, targets.stored_log_probs.to(at::kDouble),
                          options_.beta, options_.has_tail);
        const at::Tensor factor = data_factor(stats);  // of the gradient of the cross-entropy
        write_stats(targets.data, stats, divergence.value, factor, token_stats);
        const Gradient gradient{divergence.gradient / options_.temperature,
                                keeps_logits ? at::zeros_like(factor) : factor,
                                weights_of(targets.data, factor), gradient_scale};
        write_gradient(softened, targets, student, gradient);
        if (!keeps_logits) return;
        ops::cross_entropy(logits,
                           {targets.data.tokens, (gradient.weights * factor).to(at::kFloat)},
                           gradient_scale, {}, stats);
        logits.add_(softened);
    }
    void evaluate(const at::Tensor& logits, const ops::Targets& targets,
                  const at::Tensor& token_stats) const override {
        ops::cross_entropy_value(logits, targets, options_.data, token_stats);
    }

private:
    // In double: log-probabilities of the softened logits.
    struct Student {
        at::Tensor of_stored;  // [n, k]
        at::Tensor of_target;  // [n, 1]
    };
    struct Gradient {
        at::Tensor of_stored;  // by the logits of the stored tokens, but for the normalisation
        at::Tensor of_data;    // [n]: factor of that of the cross-entropy
        at::Tensor weights;    // [n]
        double scale;
    };

    static at::Tensor value_of(const at::Tensor& logits, const ops::Targets& targets) {
        at::Tensor stats =
            at::empty({logits.size(0), ops::stats_per_token}, logits.options().dtype(at::kFloat));
        ops::cross_entropy_value(logits, {targets.tokens}, {}, stats);
        return stats;
    }
    // stats: of the logits.
    Student student_of(const at::Tensor& softened, const ObjectiveTargets& targets,
                       const at::Tensor& stats) const {
        const at::Tensor loss =
            options_.temperature == 1 ? stats : value_of(softened, targets.data);
        const at::Tensor of_target = -loss.narrow(1, 0, 1).to(at::kDouble);
        const at::Tensor log_sum =
            softened.gather(1, targets.data.tokens.unsqueeze(1)).to(at::kDouble) - of_target;
        return {softened.gather(1, targets.stored_tokens).to(at::kDouble) - log_sum, of_target};
    }
    at::Tensor data_factor(const at::Tensor& stats) const {
        const at::Tensor loss = stats.select(1, 0).to(at::kDouble);
        const at::Tensor factor =
            options_.data.times_probability ? (-loss).exp() : at::ones_like(loss);
        return factor * options_.data_weight;
    }
    static at::Tensor weights_of(const ops::Targets& targets, const at::Tensor& like) {
        return targets.weighted(at::ones_like(like));
    }
    static void write_stats(const ops::Targets& targets, const at::Tensor& stats,
                            const at::Tensor& divergence, const at::Tensor& factor,
                            const at::Tensor& token_stats) {
        const at::Tensor weights = weights_of(targets, factor);
        const at::Tensor loss = stats.select(1, 0).to(at::kDouble);
        token_stats.select(1, 0).copy_(weights * (divergence + factor * loss));
        token_stats.narrow(1, 1, 2).copy_(stats.narrow(1, 1, 2));
        token_stats.select(1, 3).copy_(weights * divergence);
        token_stats.select(1, 4).copy_(weights * loss);
    }
    // Both losses have a softmax in their gradients, which one pass of the kernel writes. The
    // logits of few tokens have more, and are written again, so that each is rounded once.
    static void write_gradient(const at::Tensor& logits, const ObjectiveTargets& targets,
                               const Student& student, const Gradient& gradient) {
        const at::Tensor of_softmax =
            gradient.weights * (gradient.of_data - gradient.of_stored.sum(1));
        const at::Tensor unused =
            at::empty({logits.size(0), ops::stats_per_token}, logits.options().dtype(at::kFloat));
        ops::cross_entropy(logits, {targets.data.tokens, of_softmax.to(at::kFloat)}, gradient.scale,
                           {}, unused);
        const at::Tensor target = targets.data.tokens.unsqueeze(1);
        const at::Tensor of_data = (gradient.weights * gradient.of_data).unsqueeze(1);
        const at::Tensor softmax = of_softmax.unsqueeze(1);
        // Not scatter_(), which makes a copy of all logits in fp32 on the host.
        const at::Tensor first_places =
            at::arange(logits.size(0), target.options()).unsqueeze(1) * logits.size(1);
        const auto write = [&](const at::Tensor& tokens, const at::Tensor& numbers) {
            logits.view(-1).index_copy_(
                0, (first_places + tokens).flatten(),
                (gradient.scale * numbers).to(logits.scalar_type()).flatten());
        };
        write(target, softmax * student.of_target.exp() - of_data);
        write(targets.stored_tokens, softmax * student.of_stored.exp() +
                                         gradient.weights.unsqueeze(1) * gradient.of_stored -
                                         at::where(targets.stored_tokens.eq(target), of_data, 0.0));
    }

    Distillation options_;
};

}  // namespace

std::shared_ptr<const Objective> distillation_objective(const Distillation& options) {
    return std::make_shared<const DistillationObjective>(options);
}

}  // namespace ringshard::model
