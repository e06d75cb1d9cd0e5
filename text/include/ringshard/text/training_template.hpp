#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ringshard::text {

// A chat template for training: it marks what the model puts out with {% generation %}, and renders
// an answer alike whatever follows it.
struct TrainingTemplate {
    std::string family;  // the models whose template it is made of
    std::string source;
};

// Returns the training template of a template that a model family ships: the same text with the
// few changes that the family needs. Nothing for other templates.
std::optional<TrainingTemplate> make_training_template(std::string_view source);

}  // namespace ringshard::text
