#include <algorithm>
#include <set>

#include "rule_report.hpp"

namespace ringshard::config {

namespace {

constexpr int64_t most_labels_of_set = 31;  // bits of the number that stands for them

void check_labels(RuleReport& report) {
    const TrainingSettings& training = report.settings().values.training;
    const std::vector<std::string>& names = training.class_names;
    const auto refuse = [&](bool is_asked_for, std::vector<std::string> settings, const char* why) {
        if (is_asked_for) report.complain(settings, why);
    };
    const bool are_sets = training.learns_label_sets();
    refuse(names.size() == 1 && !are_sets, {"class_names", "method"},
           "a number (num_labels 1) has no name, and labels are two or more");
    refuse(training.problem_type == ProblemType::regression && training.classes() > 1,
           {"problem_type", "num_labels"}, "a document has one number; give num_labels 1");
    refuse(training.problem_type == ProblemType::single_label_classification &&
               training.classes() == 1,
           {"problem_type", "num_labels"},
           "labels are two or more; give multi_label_classification for one that a document has or "
           "not");
    refuse(are_sets && training.classes() > most_labels_of_set, {"problem_type", "num_labels"},
           "a document has several labels of at most 31; train the others in a run of their own");
    refuse(!names.empty() && std::ssize(names) != training.classes(), {"num_labels", "class_names"},
           "must be one number: give a name for each label, or leave num_labels out");
    refuse(std::set(names.begin(), names.end()).size() != names.size(), {"class_names"},
           "every label needs a name of its own");
}

// Settings that choose parts of documents, where these are learned as a whole.
void refuse_parts(RuleReport& report, const char* whole) {
    const DataSettings& data = report.settings().values.data;
    const auto refuse = [&](bool is_asked_for, const char* name, const char* why) {
        if (is_asked_for) report.complain({name, "method"}, why);
    };
    refuse(data.assistant_only_loss, "assistant_only_loss", whole);
    refuse(data.completion_only_loss.value_or(false), "completion_only_loss", whole);
    refuse(!data.roles_to_train.empty(), "roles_to_train", whole);
    refuse(data.train_on_last_turn_only, "train_on_last_turn_only", whole);
    refuse(!data.mask_reasoning.empty(), "mask_reasoning", whole);
    refuse(!data.loss_scale.empty(), "loss_scale", whole);
}

// A document has one label, and no token one of its own.
void check_labelled_rows(RuleReport& report) {
    const DataSettings& data = report.settings().values.data;
    const auto refuse = [&](bool is_asked_for, const char* name, const char* why) {
        if (is_asked_for) report.complain({name, "method"}, why);
    };
    const bool packs = data.packing || data.eval_packing.value_or(false);
    refuse(packs && data.packing_strategy != PackingStrategy::bfd, "packing_strategy",
           "a document with one label is not split; give bfd");
    refuse(data.skip_prepare_dataset, "skip_prepare_dataset",
           "labelled rows are texts or messages; leave it out");
    refuse_parts(report, "a document has one label as a whole; leave it out");
}

void check_embedded_rows(RuleReport& report) {
    const Config& config = report.settings().values;
    const DataSettings& data = config.data;
    const auto refuse = [&](bool is_asked_for, const char* name, const char* why) {
        if (is_asked_for) report.complain({name, "method"}, why);
    };
    refuse_parts(report, "texts are compared as a whole; leave it out");
    refuse(data.packing || data.eval_packing.value_or(false), "packing",
           "the texts of a row stand behind each other without padding; leave it out");
    refuse(data.skip_prepare_dataset, "skip_prepare_dataset", "rows are texts; leave it out");
    refuse(data.min_length > 0, "min_length", "concerns rows of one document; leave it out");
    refuse(data.truncation_mode == TruncationMode::keep_end, "truncation_mode",
           "a text is cut at its end, or its row dropped; give keep_start or drop");
    refuse(config.training.neftune_noise_alpha.value_or(0) > 0, "neftune_noise_alpha",
           "texts are compared without noise; leave it out");
}

void check_run_of_scores(RuleReport& report) {
    const Config& config = report.settings().values;
    const TrainingSettings& training = config.training;
    const auto refuse = [&](bool is_asked_for, const char* name, const char* why) {
        if (is_asked_for) report.complain({name, "method"}, why);
    };
    const char* const of_tokens = "is of the tokens that sft learns; leave it out";
    refuse(training.loss_type != LossType::nll, "loss_type", of_tokens);
    refuse(training.label_smoothing_factor > 0, "label_smoothing_factor", of_tokens);
    refuse(!training.teacher_scores.empty(), "teacher_scores", of_tokens);
    refuse(!training.anchor.empty(), "anchor", of_tokens);
    refuse(!config.adapter.adapters.empty(), "adapters",
           "adapters that train together learn by sft; train each of them in a run of its own");
    refuse(!config.evaluation.eval_prompts.empty(), "eval_prompts",
           "no text is written; leave it out");
    refuse(config.model.router_aux_loss_coef.value_or(0) > 0, "router_aux_loss_coef",
           "a loss of documents has no such part; leave it out");
}

}  // namespace

void check_scores(RuleReport& report) {
    Settings& settings = report.settings();
    const TrainingSettings& training = settings.values.training;
    if (training.learns_scores() || training.learns_embeddings()) check_run_of_scores(report);
    if (training.learns_embeddings()) check_embedded_rows(report);
    if (training.method == Method::classification) {
        check_labels(report);
        check_labelled_rows(report);
    }
    const auto leave_out = [&](Method method, const char* name, const char* why) {
        if (training.method != method && settings.is_fixed(name))
            report.complain({name, "method"}, why);
    };
    leave_out(Method::embedding, "pooling",
              "concerns embeddings, of method embedding; leave it out");
    leave_out(Method::reward, "center_rewards_coefficient",
              "concerns rewards, of method reward; leave it out");
    for (const char* name : {"num_labels", "class_names", "problem_type"})
        leave_out(Method::classification, name,
                  "concerns labels, of method classification; leave it out");
}

}  // namespace ringshard::config
