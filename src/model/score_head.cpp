#include "ringshard/model/score_head.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reading/architecture.hpp"
#include "ringshard/base/mix.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/random_values.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::model {

using nlohmann::ordered_json;

namespace {

// Writes the class, the labels and the token that is no part of a document.
std::string with_score_head(const std::string& config_json, const std::string& name,
                            const Labels& labels, int64_t padding) {
    auto config = parse_json<ordered_json>(config_json).value();
    config["architectures"] = {name};
    const ordered_json stored = config.value("id2label", ordered_json());
    const bool keeps_names =
        labels.names.empty() && stored.is_object() && std::ssize(stored) == labels.count;
    if (!keeps_names) {
        ordered_json::object_t by_number;  // an object looks for a key among all others
        ordered_json::object_t by_name;
        for (int64_t label = 0; label < labels.count; ++label) {
            const std::string label_name = labels.names.empty()
                                               ? concat("LABEL_", label)
                                               : labels.names[static_cast<size_t>(label)];
            by_number.push_back({concat(label), label_name});
            by_name.push_back({label_name, label});
        }
        config["id2label"] = std::move(by_number);
        config["label2id"] = std::move(by_name);
    }
    config.erase("num_labels");
    if (labels.problem_type != nullptr) config["problem_type"] = labels.problem_type;
    config["pad_token_id"] = padding;
    return config.dump(2) + "\n";
}

// The names of the labels that config.json has, in their order.
std::vector<std::string> names_in(const ordered_json& config) {
    std::vector<std::string> names;
    const ordered_json stored = config.value("id2label", ordered_json());
    if (stored.is_object())
        for (size_t label = 0; stored.contains(concat(label)); ++label)
            if (const ordered_json& name = stored[concat(label)]; name.is_string())
                names.push_back(name.get<std::string>());
    return names;
}

}  // namespace

void take_score_head(ModelSpec& spec, int64_t count) {
    spec.scores = {.count = count, .replaced = spec.names.head};
    spec.names.head = "score";
    spec.tied = spec.has_head_bias = false;
    spec.logits_multiplier = 1;
    spec.logits_cap = 0;
    spec.router_aux_loss_coef = 0;
    spec.has_router_aux_loss = false;
}

std::string score_class_of(const ModelSpec& spec) {
    const Architecture* const architecture = find_architecture(spec.architecture);
    const bool has_class = architecture != nullptr && architecture->more.score_class != nullptr;
    return has_class ? architecture->more.score_class : "";
}

std::optional<Failure> give_score_head(ModelSpec& spec, const Labels& labels, int64_t padding,
                                       int64_t seed) {
    const std::string name = score_class_of(spec);
    if (name.empty())
        return Failure{ExitCode::settings,
                       format_text("method: transformers has no ...ForSequenceClassification for a "
                                   "{}, which would hold a head of scores; take a model of "
                                   "another family",
                                   spec.architecture)};
    if (spec.scores && spec.scores->count != labels.count)
        return Failure{ExitCode::settings,
                       format_text("num_labels = {}: the head of the model has {} scores; give as "
                                   "many labels, or begin with a model that has no such head",
                                   labels.count, spec.scores->count)};
    const auto config = parse_json<ordered_json>(spec.config_json).value();
    const ordered_json stored = config.value("problem_type", ordered_json());
    const bool is_other = stored == "multi_label_classification" && labels.problem_type != stored;
    if (spec.scores && is_other && labels.problem_type != nullptr && !labels.is_problem_chosen)
        return Failure{ExitCode::settings,
                       format_text("problem_type: the model's config.json says "
                                   "multi_label_classification, and this run would learn by {}; "
                                   "say which of the two",
                                   labels.problem_type)};
    const std::vector<std::string> held = names_in(config);
    if (spec.scores && labels.names != held && std::ranges::is_permutation(labels.names, held))
        return Failure{ExitCode::settings,
                       format_text("class_names = {}: the head of the model has these classes in "
                                   "another order, {}; give them so, or leave class_names out",
                                   join(labels.names, ", "), join(held, ", "))};
    if (!spec.scores) {
        take_score_head(spec, labels.count);
        spec.scores->drawn_by = mix_bits(hash_text("score"), static_cast<uint64_t>(seed));
    }
    spec.config_json = with_score_head(spec.config_json, name, labels, padding);
    return std::nullopt;
}

void draw_score_head(const ModelSpec& spec, int64_t first, std::span<float> into) {
    fill_normal(spec.scores->drawn_by.value(), first, spec.initializer_range, into);
}

}  // namespace ringshard::model
