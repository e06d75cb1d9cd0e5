#include "ringshard/model/objective.hpp"

#include "objectives/anchor.hpp"
#include "objectives/distillation.hpp"
#include "objectives/embeddings.hpp"
#include "objectives/preference.hpp"
#include "objectives/reference_free.hpp"
#include "objectives/scores.hpp"
#include "objectives/single_answers.hpp"
#include "ringshard/config/training_settings.hpp"

namespace ringshard::model {

int64_t Objective::numbers_per_token() const {
    return ops::stats_per_token + static_cast<int64_t>(further_numbers().size());
}

namespace {

// Returns the objective of rows that are not those of an anchor.
std::shared_ptr<const Objective> objective_of_data(const config::TrainingSettings& training) {
    if (training.loss_type == config::LossType::eaft)
        return entropy_adaptive_objective(training.eaft_alpha);
    const ops::LossForm data{training.loss_type == config::LossType::dft,
                             training.label_smoothing_factor};
    if (training.teacher_scores.empty()) return cross_entropy_objective(data);
    return distillation_objective({.beta = training.beta,
                                   .temperature = training.temperature,
                                   .has_tail = training.loss_add_tail,
                                   .data_weight = training.sft_alpha,
                                   .data = data});
}

}  // namespace

std::shared_ptr<const Objective> objective_of(const config::TrainingSettings& training) {
    using config::Method;
    if (training.method == Method::dpo) return preference_objective(training);
    if (training.method == Method::cpo) return reference_free_objective(training);
    if (training.method == Method::kto) return single_answers_objective(training);
    if (training.method == Method::reward) return reward_objective(training);
    if (training.learns_embeddings()) return embedding_objective();
    if (training.learns_numbers()) return regression_objective();
    if (training.learns_label_sets()) return label_sets_objective();
    if (training.method == Method::classification) return classification_objective();
    auto of_data = objective_of_data(training);
    if (training.anchor.empty()) return of_data;
    return anchored_objective(std::move(of_data), training.anchor_weight);
}

}  // namespace ringshard::model
