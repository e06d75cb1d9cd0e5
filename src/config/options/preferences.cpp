#include "../option_group.hpp"
#include "ringshard/config/config.hpp"

namespace ringshard::config {

void add_preference_options(OptionTable& table) {
    OptionGroup group(table, "Training", &Config::training);
    group
        .serve("method", &TrainingSettings::method,
               "What the rows are: sft, examples to learn from; dpo, pairs of a chosen and a "
               "rejected answer, beside a reference; cpo, such pairs without one; kto, single "
               "answers that are desirable or not, beside a reference; reward, pairs for a model "
               "of rewards; classification, documents with a label; embedding, texts that belong "
               "together. `trainer dpo`, `cpo`, `kto`, `reward`, `classify` and `embed` set it, "
               "with TRL's defaults.")
        .shapes_loss_if_set();
    group
        .serve("label_smoothing", &TrainingSettings::label_smoothing,
               "With loss_type robust and exo_pair, and with method cpo: the share of pairs that "
               "are the other way round.")
        .shapes_loss_if_set()
        .at_least(0)
        .below(0.5);
    group
        .serve("f_divergence_type", &TrainingSettings::f_divergence_type,
               "With method dpo: the divergence from the model at the start of the run that a loss "
               "of two answers' difference stands for.")
        .shapes_loss_if_set();
    group
        .serve("f_alpha_divergence_coef", &TrainingSettings::f_alpha_divergence_coef,
               "With f_divergence_type alpha_divergence: its alpha.")
        .shapes_loss_if_set();
    group
        .serve("discopop_tau", &TrainingSettings::discopop_tau,
               "With loss_type discopop: the temperature of its two parts.")
        .shapes_loss_if_set()
        .above(0);

    group
        .serve("rpo_alpha", &TrainingSettings::rpo_alpha,
               "With method dpo: the weight of the cross-entropy of the chosen answers, which "
               "TRL's loss sft adds.")
        .shapes_loss_if_set()
        .at_least(0);
    group
        .serve("cpo_alpha", &TrainingSettings::cpo_alpha,
               "With method cpo: the weight of the cross-entropy of the chosen answers; with "
               "loss_type orpo of their prompts, too, unless completion_only_loss is true.")
        .shapes_loss_if_set()
        .at_least(0);
    group
        .serve("simpo_gamma", &TrainingSettings::simpo_gamma,
               "With loss_type simpo and alphapo: by how much the rewards are to differ.")
        .shapes_loss_if_set();
    group
        .serve("alpha", &TrainingSettings::alpha,
               "With method cpo: the reward of an answer of the probability p is (1 - p^-alpha) / "
               "alpha; 0: log p.")
        .shapes_loss_if_set();
    group
        .serve("likelihood_per_answer", &TrainingSettings::likelihood_per_answer,
               "With cpo_alpha and rpo_alpha: the cross-entropy of chosen answers is the mean over "
               "answers of that of their tokens, as in LLaMA-Factory, and not over all tokens.")
        .shapes_loss_if_set();
    group
        .serve("desirable_weight", &TrainingSettings::desirable_weight,
               "With method kto: the weight of the losses of desirable answers.")
        .shapes_loss_if_set()
        .at_least(0);
    group
        .serve("undesirable_weight", &TrainingSettings::undesirable_weight,
               "With method kto: the weight of the losses of undesirable answers.")
        .shapes_loss_if_set()
        .at_least(0);
    group.serve("share_prompts", &TrainingSettings::share_prompts,
                "With pairs of answers: the tokens that both answers of a pair begin with are "
                "computed once. Numbers differ by rounding alone.");

    const std::string before =
        "the log-probabilities of the reference, which is the model at the start of the run, are "
        "computed once, before the first step";
    group.accept("precompute_ref_log_probs", Shape::boolean, "false", before);
    group.accept("precompute_ref_batch_size", Shape::integer, "null", before);
    group.refuse("sync_ref_model", Shape::boolean, "false",
                 "the reference stays the model at the start of the run; leave it out");
    const std::string of_sync = "it concerns sync_ref_model, which is not served";
    group.accept("ref_model_mixup_alpha", Shape::number, "0.6", of_sync);
    group.accept("ref_model_sync_steps", Shape::integer, "512", of_sync);
    group.refuse("disable_dropout", Shape::boolean, "true",
                 "answers are compared without dropout; leave it out");
    group.refuse("ld_alpha", Shape::number, "null",
                 "every token of an answer counts alike; leave it out");
    group.refuse("use_weighting", Shape::boolean, "false", "every pair counts alike; leave it out");
    group.refuse(
        "loss_weights", Shape::word, "null",
        "a run has one loss of pairs, loss_type, and rpo_alpha is the weight of sft beside "
        "it; leave it out");
}

}  // namespace ringshard::config
