#include <algorithm>
#include <array>

#include "rule_report.hpp"

namespace ringshard::config {

namespace {

// Losses of the difference of both answers' scores, which a divergence shapes.
bool is_of_difference(LossType loss) {
    static constexpr std::array losses{LossType::sigmoid,     LossType::hinge,  LossType::ipo,
                                       LossType::exo_pair,    LossType::robust, LossType::discopop,
                                       LossType::sigmoid_norm};
    return std::ranges::find(losses, loss) != losses.end();
}

void check_answers(RuleReport& report) {
    const TrainingSettings& training = report.settings().values.training;
    if (training.beta <= 0)
        report.complain({"beta", "method"},
                        "must be above 0: it is the factor of rewards; the usual one is 0.1");
    if (training.label_smoothing_factor > 0)
        report.complain({"label_smoothing_factor", "method"},
                        "smooths the targets of sft; some losses of pairs have label_smoothing");
}

// Of method dpo.
void check_loss_beside_reference(RuleReport& report) {
    const TrainingSettings& training = report.settings().values.training;
    const auto refuse = [&](bool is_asked_for, std::vector<std::string> names, const char* why) {
        if (is_asked_for) report.complain(names, why);
    };
    refuse(!is_of_answers(training.loss_type) || training.loss_type >= LossType::simpo,
           {"loss_type", "method"},
           "dpo learns from pairs beside a reference: give sigmoid or another of its losses");
    const bool smooths =
        training.loss_type == LossType::robust || training.loss_type == LossType::exo_pair;
    refuse(training.label_smoothing > 0 && !smooths, {"label_smoothing", "loss_type"},
           "concerns loss_type robust and exo_pair; give one of them, or leave it out");
    refuse(training.loss_type == LossType::exo_pair && training.label_smoothing == 0,
           {"label_smoothing", "loss_type"},
           "exo_pair divides by the share of wrong pairs; give one above 0, such as 0.001");
    refuse(training.f_divergence_type != FDivergence::reverse_kl &&
               !is_of_difference(training.loss_type),
           {"f_divergence_type", "loss_type"},
           "a divergence shapes sigmoid, sigmoid_norm, hinge, ipo, exo_pair, robust and discopop "
           "alone; give one of them, or reverse_kl");
    const Settings& settings = report.settings();
    refuse(settings.is_fixed("discopop_tau") && training.loss_type != LossType::discopop,
           {"discopop_tau", "loss_type"},
           "concerns loss_type discopop; give that, or leave it out");
    refuse(settings.is_fixed("f_alpha_divergence_coef") &&
               training.f_divergence_type != FDivergence::alpha_divergence,
           {"f_alpha_divergence_coef", "f_divergence_type"},
           "concerns f_divergence_type alpha_divergence; give that, or leave it out");
}

// Of method cpo.
void check_loss_without_reference(RuleReport& report) {
    const Settings& settings = report.settings();
    const TrainingSettings& training = settings.values.training;
    const auto refuse = [&](bool is_asked_for, std::vector<std::string> names, const char* why) {
        if (is_asked_for) report.complain(names, why);
    };
    static constexpr std::array losses{LossType::sigmoid, LossType::hinge,   LossType::ipo,
                                       LossType::simpo,   LossType::alphapo, LossType::orpo};
    refuse(std::ranges::find(losses, training.loss_type) == losses.end(), {"loss_type", "method"},
           "cpo learns from pairs without a reference: give sigmoid, hinge, ipo, simpo, "
           "alphapo or orpo");
    const bool has_margin =
        training.loss_type == LossType::simpo || training.loss_type == LossType::alphapo;
    const bool smooths = has_margin || training.loss_type == LossType::sigmoid;
    refuse(training.label_smoothing > 0 && !smooths, {"label_smoothing", "loss_type"},
           "concerns loss_type sigmoid, simpo and alphapo; give one of them, or leave it out");
    refuse(settings.is_fixed("simpo_gamma") && !has_margin, {"simpo_gamma", "loss_type"},
           "concerns loss_type simpo and alphapo; give one of them, or leave it out");
    refuse(settings.is_fixed("cpo_alpha") && training.cpo_alpha != 0 &&
               training.loss_type == LossType::alphapo,
           {"cpo_alpha", "loss_type"},
           "alphapo is simpo with cpo_alpha 0; give simpo, or leave it out");
    refuse(training.alpha != 0 && training.loss_type == LossType::orpo, {"alpha", "loss_type"},
           "shapes rewards, and orpo compares odds; give another loss, or leave it out");
    for (const char* name : {"f_divergence_type", "f_alpha_divergence_coef", "discopop_tau"})
        refuse(settings.is_fixed(name), {name, "method"},
               "concerns a reference, of method dpo; leave it out");
}

// Of method kto.
void check_loss_of_single_answers(RuleReport& report) {
    const Settings& settings = report.settings();
    const TrainingSettings& training = settings.values.training;
    if (training.loss_type < LossType::kto)
        report.complain({"loss_type", "method"},
                        "kto learns from single answers: give kto or apo_zero_unpaired");
    if (training.has_baseline() &&
        settings.values.data.train_sampling_strategy != SamplingStrategy::sequential)
        report.complain({"train_sampling_strategy", "loss_type"},
                        "the baseline of loss_type kto joins each prompt with the answer of the "
                        "row before, so rows stay in their order: give sequential (shuffle_dataset "
                        "shuffles them once), or loss_type apo_zero_unpaired");
    for (const char* name :
         {"label_smoothing", "f_divergence_type", "f_alpha_divergence_coef", "discopop_tau"})
        if (settings.is_fixed(name))
            report.complain({name, "method"}, "concerns pairs of answers; leave it out");
}

void check_rows_of_answers(RuleReport& report) {
    const Config& config = report.settings().values;
    const DataSettings& data = config.data;
    const auto refuse = [&](bool is_asked_for, const char* name, const char* why) {
        if (is_asked_for) report.complain({name, "method"}, why);
    };
    refuse(data.packing, "packing",
           "answers stand in a row of their own, without padding; leave it out");
    refuse(data.eval_packing.value_or(false), "eval_packing",
           "answers stand in a row of their own; leave it out");
    refuse(data.skip_prepare_dataset, "skip_prepare_dataset",
           "answers are texts or messages; leave it out");
    refuse(data.min_length > 0, "min_length", "concerns rows of one document; leave it out");
    refuse(data.truncation_mode == TruncationMode::keep_end, "truncation_mode",
           "an answer is cut at its end, or its row dropped; give keep_start or drop");
    refuse(data.assistant_only_loss, "assistant_only_loss",
           "an answer is compared as a whole; leave it out");
    refuse(!data.completion_only_loss.value_or(true) && !config.training.compares_odds(),
           "completion_only_loss", "answers are compared, without their prompt; leave it out");
    refuse(!data.roles_to_train.empty(), "roles_to_train",
           "an answer is compared as a whole; leave it out");
    refuse(data.train_on_last_turn_only, "train_on_last_turn_only",
           "an answer is compared as a whole; leave it out");
    refuse(!data.mask_reasoning.empty(), "mask_reasoning",
           "an answer is compared as a whole; leave it out");
    refuse(!data.loss_scale.empty(), "loss_scale",
           "an answer is compared as a whole; leave it out");
}

void check_run_of_answers(RuleReport& report) {
    const Config& config = report.settings().values;
    const TrainingSettings& training = config.training;
    const auto refuse = [&](bool is_asked_for, const char* name, const char* why) {
        if (is_asked_for) report.complain({name, "method"}, why);
    };
    refuse(!training.teacher_scores.empty(), "teacher_scores",
           "a teacher's scores are learned by sft; leave it out");
    refuse(!training.anchor.empty(), "anchor",
           "an anchor is learned beside examples, by sft; leave it out");
    refuse(!config.adapter.adapters.empty(), "adapters",
           "adapters that train together learn by sft; train each of them in a run of its own");
    refuse(training.neftune_noise_alpha.value_or(0) > 0, "neftune_noise_alpha",
           "answers are compared without noise; leave it out");
}

}  // namespace

void check_preferences(RuleReport& report) {
    Settings& settings = report.settings();
    const TrainingSettings& training = settings.values.training;
    if (training.learns_pairs() || training.judges_answers()) {
        check_rows_of_answers(report);
        check_run_of_answers(report);
    }
    if (training.learns_answers()) check_answers(report);
    if (training.method != Method::kto)
        for (const char* name : {"desirable_weight", "undesirable_weight"})
            if (settings.is_fixed(name))
                report.complain({name, "method"},
                                "concerns single answers, of method kto; leave it out");
    if (training.method != Method::cpo)
        for (const char* name : {"cpo_alpha", "simpo_gamma", "alpha"})
            if (settings.is_fixed(name))
                report.complain({name, "method"},
                                "concerns pairs without a reference, of method cpo; leave it out");
    if (!training.learns_pairs() && settings.is_fixed("share_prompts"))
        report.complain({"share_prompts", "method"},
                        "concerns pairs of answers, of methods dpo, cpo and reward; leave it out");
    if (training.likelihood_per_answer && training.likelihood_weight() == 0)
        report.complain({"likelihood_per_answer", "method"},
                        "concerns the cross-entropy of chosen answers, which cpo_alpha weighs with "
                        "method cpo, and rpo_alpha with dpo; give one, or leave it out");
    if (training.method != Method::dpo && settings.is_fixed("rpo_alpha"))
        report.complain({"rpo_alpha", "method"},
                        "concerns pairs beside a reference, of method dpo; leave it out");
    if (training.method == Method::dpo) return check_loss_beside_reference(report);
    if (training.method == Method::cpo) return check_loss_without_reference(report);
    if (training.method == Method::kto) return check_loss_of_single_answers(report);
    if (is_of_answers(training.loss_type))
        report.complain({"loss_type", "method"},
                        "is a loss of whole answers; train by `trainer dpo`, `trainer cpo` or "
                        "`trainer kto`, or with that method");
    for (const char* name :
         {"label_smoothing", "f_divergence_type", "f_alpha_divergence_coef", "discopop_tau"})
        if (settings.is_fixed(name))
            report.complain({name, "method"}, "concerns pairs of answers; leave it out");
}

}  // namespace ringshard::config
