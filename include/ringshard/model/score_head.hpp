#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ringshard/model/model_spec.hpp"

namespace ringshard::model {

// The labels of documents, whose scores a head gives.
struct Labels {
    int64_t count = 1;
    std::vector<std::string> names{};    // of all, or none
    const char* problem_type = nullptr;  // as config.json has it; null: a reward
    bool is_problem_chosen = false;      // by a setting, whatever config.json says
};

// Gives the model a head of scores, as transformers' ...ForSequenceClassification has it, in place
// of its head, in config_json too. A document's score is that of its last token other than
// `padding`. Files without such a head get numbers drawn by the seed. Fails if transformers has no
// such class of this model, or the model has a head of another number of scores, or for another
// problem and none is chosen.
std::optional<Failure> give_score_head(ModelSpec& spec, const Labels& labels, int64_t padding,
                                       int64_t seed);

// Returns the name of transformers' class that has a head of scores on such a model, or an empty
// text.
std::string score_class_of(const ModelSpec& spec);

// For a reader of config.json whose class has a head of scores.
void take_score_head(ModelSpec& spec, int64_t count);

// Writes elements of the head that is drawn, from `first` on.
void draw_score_head(const ModelSpec& spec, int64_t first, std::span<float> into);

}  // namespace ringshard::model
