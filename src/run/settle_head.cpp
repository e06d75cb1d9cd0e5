#include "ringshard/run/settle_head.hpp"

#include "ringshard/base/text.hpp"
#include "ringshard/data/choose_data.hpp"
#include "ringshard/data/text_tools.hpp"
#include "ringshard/model/score_head.hpp"

namespace ringshard::run {

Expected<int64_t> find_padding_token(const config::Config& config, const HubCache& hub) {
    const auto format = data::format_settings(config, hub);
    if (!format) return format.failure();
    const auto tools = data::TextTools::load(format.value(), data::TextTools::Template::not_needed);
    if (!tools) return tools.failure();
    if (const auto token = tools.value().padding_token()) return int64_t{*token};
    return Failure{ExitCode::settings,
                   format_text("eos_token: the tokenizer of {} has neither pad_token nor "
                               "eos_token, and a document's score is that of its last token "
                               "before padding; set eos_token to a token of its vocabulary",
                               format.value().tokenizer.string())};
}

namespace {

// Embeddings are made of the rows before the head, which stays as it is.
void leave_out_head(model::ModelSpec& spec) {
    if (!spec.tied) spec.frozen.insert(spec.names.head + ".weight");
    if (spec.has_head_bias) spec.frozen.insert(spec.names.head + ".bias");
    spec.router_aux_loss_coef = 0;
    spec.has_router_aux_loss = false;
}

}  // namespace

namespace {

const char* problem_type_of(const config::TrainingSettings& training) {
    if (training.method == config::Method::reward) return nullptr;
    if (training.learns_numbers()) return "regression";
    return training.learns_label_sets() ? "multi_label_classification"
                                        : "single_label_classification";
}

}  // namespace

std::optional<Failure> settle_head(const config::Settings& settings, int64_t padding,
                                   model::ModelSpec& spec) {
    const config::TrainingSettings& training = settings.values.training;
    if (!training.learns_scores()) {
        if (training.learns_embeddings()) leave_out_head(spec);
        if (!spec.scores) return std::nullopt;
        return Failure{
            ExitCode::settings,
            format_text("model_name_or_path [{}]: the model is a {}, with a head of {} scores in "
                        "place of one for tokens, which method classification and reward learn; "
                        "give one of these, or the model from which it was made",
                        settings.origin_of("model_name_or_path").place, model::score_class_of(spec),
                        spec.scores->count)};
    }
    if (spec.is_wrapped)
        return Failure{ExitCode::settings,
                       format_text("method [{}]: {} is a model of texts and pictures, whose text "
                                   "model gets no head of scores here; take one of text alone",
                                   settings.origin_of("method").place, spec.architecture)};
    const bool is_reward = training.method == config::Method::reward;
    const bool has_labels = training.classes() > 0;
    if (!is_reward && !has_labels && !spec.scores)
        return Failure{ExitCode::settings,
                       "num_labels: the model has no head of labels; say how many there are, or "
                       "name them: class_names"};
    return model::give_score_head(spec,
                                  {.count = is_reward    ? 1
                                            : has_labels ? training.classes()
                                                         : spec.scores->count,
                                   .names = training.class_names,
                                   .problem_type = problem_type_of(training),
                                   .is_problem_chosen = training.problem_type.has_value()},
                                  padding, settings.values.run.seed);
}

}  // namespace ringshard::run
