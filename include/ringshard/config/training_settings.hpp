#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ringshard/config/activation_policies.hpp"
#include "ringshard/config/parallel_settings.hpp"

namespace ringshard::config {

enum class Precision { fp32, bf16, fp8 };
// The formats of FP8: e4m3 for all numbers, or e5m2 for output gradients.
enum class Fp8Format { e4m3, hybrid };
// Which numbers of a factor in FP8 share a scale, and from which numbers it follows.
enum class Fp8Recipe { rowwise, tensorwise, delayed };
// Which maxima of a history count: all of it, or the newest.
enum class AmaxAlgorithm { max, most_recent };
// The backends of Accelerate, which stand for recipes.
enum class Fp8Backend { ao, te };
// How a run learns: from examples; from pairs of a chosen and a rejected answer, beside a
// reference, without one, or as the rewards of both; from single answers that are desirable or not,
// beside a reference; from labels of whole documents; or from texts that belong together, by their
// embeddings.
enum class Method { sft, dpo, cpo, kto, reward, classification, embedding };
// The losses of tokens, and from sigmoid on those of answers: of pairs beside a reference, from
// simpo on of pairs without one, from kto on of single answers.
enum class LossType {
    nll,
    dft,
    eaft,
    sigmoid,
    hinge,
    ipo,
    exo_pair,
    nca_pair,
    robust,
    bco_pair,
    sppo_hard,
    apo_zero,
    apo_down,
    discopop,
    sigmoid_norm,
    simpo,
    alphapo,
    orpo,
    kto,
    apo_zero_unpaired
};
inline bool is_of_answers(LossType loss) { return loss >= LossType::sigmoid; }
// What a loss of pairs makes of the ratio of the probabilities of an answer under both models.
enum class FDivergence { reverse_kl, forward_kl, js_divergence, alpha_divergence };
// What makes an embedding of the tokens of a document: the last one, the first, or their mean.
enum class Pooling { lasttoken, cls, mean };
// What the labels of a document are, in transformers' words.
enum class ProblemType { regression, single_label_classification, multi_label_classification };
enum class Schedule {
    linear,
    cosine,
    cosine_with_restarts,
    polynomial,
    constant,
    constant_with_warmup,
    inverse_sqrt,
    cosine_with_min_lr,
    cosine_warmup_with_min_lr,
    warmup_stable_decay,
    reduce_on_plateau,
    deepspeed_warmup,
    deepspeed_warmup_decay,
    deepspeed_warmup_cosine,
};
enum class Optimizer {
    adagrad,
    adamw,
    adamw_8bit,
    lion,
    lion_8bit,
    muon,
    rmsprop,
    sgd,
    schedule_free_adamw,
    schedule_free_sgd,
    adafactor
};
enum class OnNan { abort, skip, rewind };

struct TrainingSettings {
    int64_t per_device_train_batch_size = 8;
    bool auto_find_batch_size = false;
    int64_t gradient_accumulation_steps = 1;
    std::optional<int64_t> train_batch_size;  // rows per step over all ranks; only checked
    double num_train_epochs = 3.0;
    int64_t max_steps = -1;
    double learning_rate = 2e-5;
    double loraplus_lr_ratio = 1.0;  // of adapters: B and vectors to A
    Schedule lr_scheduler_type = Schedule::linear;
    std::string lr_scheduler_kwargs;  // JSON
    double warmup_steps = 0;          // below 1: a fraction of all steps
    Optimizer optim = Optimizer::adamw;
    std::string optim_args;  // key=value,key=value
    std::string lr_groups;   // JSON
    double weight_decay = 0.0;
    double adam_beta1 = 0.9;
    double adam_beta2 = 0.999;
    double adam_epsilon = 1e-8;
    NumberType optimizer_state_dtype = NumberType::fp32;
    double max_grad_norm = 1.0;
    OnNan on_nan = OnNan::abort;
    int64_t max_skipped_steps = 10;    // in a row
    int64_t check_replicas_every = 0;  // steps; 0: never
    Method method = Method::sft;
    LossType loss_type = LossType::nll;
    double label_smoothing_factor = 0.0;
    double eaft_alpha = 1.0;  // of loss_type eaft
    // Distillation: a folder of scores that `trainer score` wrote; empty: none.
    std::string teacher_scores;
    double beta = 0.0;  // 0: forward KL, 1: reverse KL; of pairs: how much a reward weighs
    double temperature = 1.0;
    std::optional<int64_t> loss_top_k;  // unset: as many as the scores have
    bool loss_add_tail = true;
    double sft_alpha = 0.0;  // share of the loss of the data
    std::string anchor;      // rows with scores of the base model that `trainer score` wrote
    double anchor_weight = 1.0;
    // Losses of pairs.
    double label_smoothing = 0.0;  // robust, exo_pair
    FDivergence f_divergence_type = FDivergence::reverse_kl;
    double f_alpha_divergence_coef = 0.5;
    double discopop_tau = 0.05;
    std::optional<double> rpo_alpha;  // weight of the cross-entropy of chosen answers, of dpo
    std::optional<double> neftune_noise_alpha;  // unset or 0: no noise
    Precision mixed_precision = Precision::bf16;
    std::optional<NumberType> residual_dtype;  // unset: the type of the computation
    Fp8Format fp8_format = Fp8Format::e4m3;
    Fp8Recipe fp8_recipe = Fp8Recipe::rowwise;
    std::optional<Fp8Backend> fp8_backend;  // te: settles fp8_recipe and fp8_format
    int64_t fp8_amax_history_len = 1024;    // steps; of fp8_recipe delayed, as the next two
    AmaxAlgorithm fp8_amax_compute_algo = AmaxAlgorithm::most_recent;
    int64_t fp8_margin = 0;  // binary exponents
    bool gradient_checkpointing = true;
    std::optional<ActivationPolicies>
        activation_policy;  // unset: attention if checkpointing, else all (Settings::on_gpus())
    bool activation_offloading = false;
    bool cuda_graphs = false;

    // Of method cpo.
    double cpo_alpha = 1.0;    // weight of the cross-entropy of chosen answers
    double simpo_gamma = 0.5;  // by which simpo and alphapo want rewards to differ
    double alpha = 0.0;        // shape of a reward; 0: the log-probability itself
    // The mean of the cross-entropy of chosen answers is first over the tokens of each.
    bool likelihood_per_answer = false;
    // Of method kto: the weights of the losses of answers.
    double desirable_weight = 1.0;
    double undesirable_weight = 1.0;
    bool share_prompts = true;  // where the model lets both answers of a pair have them
    // Of method reward and classification.
    std::optional<double> center_rewards_coefficient;
    std::optional<Pooling> pooling;  // of method embedding; unset: the model's own, or lasttoken
    int64_t num_labels = 0;          // 0: as many as class_names
    std::vector<std::string> class_names;
    std::optional<ProblemType> problem_type;  // unset: by the number of labels

    bool learns_pairs() const {
        return method == Method::dpo || method == Method::cpo || method == Method::reward;
    }
    bool learns_embeddings() const { return method == Method::embedding; }
    bool judges_answers() const { return method == Method::kto; }
    // Returns true if the log-probabilities of whole answers are learned.
    bool learns_answers() const {
        return judges_answers() || (learns_pairs() && method != Method::reward);
    }
    bool has_reference() const { return method == Method::dpo || method == Method::kto; }
    // Returns true if rewards count from a baseline, which the answers of other rows give.
    bool has_baseline() const { return method == Method::kto && loss_type == LossType::kto; }
    // The weight of the cross-entropy of chosen answers.
    double likelihood_weight() const {
        if (method == Method::dpo) return rpo_alpha.value_or(0);
        return method == Method::cpo && loss_type != LossType::alphapo ? cpo_alpha : 0;
    }
    bool compares_odds() const { return method == Method::cpo && loss_type == LossType::orpo; }
    // Returns true if whole documents are scored, by a head in place of that of the vocabulary.
    bool learns_scores() const {
        return method == Method::reward || method == Method::classification;
    }
    // Returns true if a document may have several labels.
    bool learns_label_sets() const {
        return method == Method::classification &&
               problem_type == ProblemType::multi_label_classification;
    }
    // Returns true if the score is a number, in place of one for each label.
    bool learns_numbers() const {
        return method == Method::classification && classes() == 1 && !learns_label_sets();
    }
    int64_t classes() const {
        return num_labels > 0 ? num_labels : static_cast<int64_t>(class_names.size());
    }
    bool has_fp8() const { return mixed_precision == Precision::fp8; }
    // Products in FP8 are of tensors in bf16.
    bool computes_in_bf16() const { return mixed_precision != Precision::fp32; }
    // Returns true if the residual stream is in fp32 beside a computation in bf16.
    bool widens_residual() const {
        return computes_in_bf16() && residual_dtype == NumberType::fp32;
    }
    ActivationPolicies activations_kept() const {
        const ActivationPolicies usual =
            gradient_checkpointing ? ActivationPolicy::attention : ActivationPolicy::all;
        return activation_policy.value_or(usual);
    }
};

}  // namespace ringshard::config
