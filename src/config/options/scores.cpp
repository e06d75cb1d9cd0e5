#include "../option_group.hpp"
#include "ringshard/config/config.hpp"

namespace ringshard::config {

void add_score_options(OptionTable& table) {
    OptionGroup group(table, "Training", &Config::training);
    group
        .serve("center_rewards_coefficient", &TrainingSettings::center_rewards_coefficient,
               "With method reward: the factor of the square of both rewards' sum, which draws "
               "them to 0.")
        .shapes_loss_if_set()
        .at_least(0);
    group
        .serve("pooling", &TrainingSettings::pooling,
               "With method embedding: what is a document's embedding, the last token's row "
               "(lasttoken), the first one's (cls) or their mean; null: as the model's folder "
               "says, else lasttoken.")
        .shapes_loss_if_set();
    group
        .serve("num_labels", &TrainingSettings::num_labels,
               "With method classification: how many labels there are; 1: label is a number "
               "(regression); 0: as many as class_names, or as the model's config.json has.")
        .shapes_loss_if_set()
        .at_least(0)
        .at_most(1 << 20);
    group
        .serve("class_names", &TrainingSettings::class_names,
               "With method classification: the names of the labels, in their order, as the "
               "column label and the model's config.json have them.")
        .shapes_loss_if_set();
    group
        .serve("problem_type", &TrainingSettings::problem_type,
               "With method classification: whether a document has one label "
               "(single_label_classification), several or none (multi_label_classification: label "
               "is a list), or a number (regression, num_labels 1); null: by num_labels.")
        .shapes_loss_if_set();
}

}  // namespace ringshard::config
