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

void check_loss_of_pairs(RuleReport& report) {
    const TrainingSettings& training = report.settings().values.training;
    const auto refuse = [&](bool is_asked_for, std::vector<std::string> names, const char* why) {
        if (is_asked_for) report.complain(names, why);
    };
    const bool smooths =
        training.loss_type == LossType::robust || training.loss_type == LossType::exo_pair;
    refuse(training.beta <= 0, {"beta", "method"},
           "must be above 0: it is the factor of rewards; DPO's usual one is 0.1");
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
    refuse(training.label_smoothing_factor > 0, {"label_smoothing_factor", "method"},
           "smooths the targets of sft; pairs have label_smoothing, of loss_type robust");
}

void check_rows_of_pairs(RuleReport& report) {
    const Config& config = report.settings().values;
    const DataSettings& data = config.data;
    const auto refuse = [&](bool is_asked_for, const char* name, const char* why) {
        if (is_asked_for) report.complain({name, "method"}, why);
    };
    refuse(data.packing, "packing",
           "the two answers of a pair stand in a row of their own, without padding; leave it out");
    refuse(data.eval_packing.value_or(false), "eval_packing",
           "the two answers of a pair stand in a row of their own; leave it out");
    refuse(data.skip_prepare_dataset, "skip_prepare_dataset",
           "pairs are made of texts or messages; leave it out");
    refuse(data.min_length > 0, "min_length", "concerns rows of one document; leave it out");
    refuse(data.truncation_mode == TruncationMode::keep_end, "truncation_mode",
           "an answer is cut at its end, or the pair dropped; give keep_start or drop");
    refuse(data.assistant_only_loss, "assistant_only_loss",
           "an answer is compared as a whole; leave it out");
    refuse(!data.completion_only_loss.value_or(true), "completion_only_loss",
           "answers are compared, without their prompt; leave it out");
    refuse(!data.roles_to_train.empty(), "roles_to_train",
           "an answer is compared as a whole; leave it out");
    refuse(data.train_on_last_turn_only, "train_on_last_turn_only",
           "an answer is compared as a whole; leave it out");
    refuse(!data.mask_reasoning.empty(), "mask_reasoning",
           "an answer is compared as a whole; leave it out");
    refuse(!data.loss_scale.empty(), "loss_scale",
           "an answer is compared as a whole; leave it out");
}

void check_run_of_pairs(RuleReport& report) {
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
           "pairs are compared without noise; leave it out");
}

}  // namespace

void check_preferences(RuleReport& report) {
    Settings& settings = report.settings();
    const TrainingSettings& training = settings.values.training;
    if (training.has_reference() && !is_of_pairs(training.loss_type))
        return report.complain({"loss_type", "method"},
                               "dpo learns from pairs: give sigmoid or another of its losses");
    if (training.learns_pairs()) {
        check_rows_of_pairs(report);
        check_run_of_pairs(report);
    }
    if (training.has_reference()) return check_loss_of_pairs(report);
    if (is_of_pairs(training.loss_type))
        report.complain({"loss_type", "method"},
                        "is a loss of pairs of a chosen and a rejected answer; train by "
                        "`trainer dpo`, or with method dpo");
    for (const char* name :
         {"label_smoothing", "f_divergence_type", "f_alpha_divergence_coef", "discopop_tau"})
        if (settings.is_fixed(name))
            report.complain({name, "method"}, "concerns pairs, of method dpo; leave it out");
}

}  // namespace ringshard::config
