#include "ringshard/peft/adapters.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "adapter_parameters.hpp"
#include "adapter_targets.hpp"
#include "expert_targets.hpp"
#include "module_names.hpp"
#include "ringshard/base/name_patterns.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/model/model_tensors.hpp"

namespace ringshard::peft {

namespace {

constexpr const char* adapter_prefix = "base_model.model.";

// Returns the value of the first pattern that matches. PEFT reads patterns in the order of the file
// and sorts them when it saves: refuses patterns whose order makes a difference.
template <class Value>
Expected<Value> of_pattern(const char* field, const Patterns<Value>& patterns,
                           const std::string& layer, Value otherwise) {
    std::vector<std::pair<std::string, Value>> matching;
    for (const auto& [pattern, value] : patterns) {
        const auto found = names_that_match(field, pattern, Fit::end, {layer});
        if (!found) return found.failure();
        if (!found.value().empty()) matching.emplace_back(pattern, value);
    }
    if (matching.empty()) return otherwise;
    const auto& first = *std::ranges::min_element(matching);
    if (first.second != matching.front().second)
        return refuse(
            format_text("{}: {} and {} both match {}, and PEFT takes the one or the other: give "
                        "patterns that do not overlap",
                        field, matching.front().first, first.first, layer));
    return first.second;
}

Expected<model::AdapterSpec> adapter_of(const LoraConfig& config, const model::LinearLayer& layer) {
    const auto rank = of_pattern("rank_pattern", config.rank_pattern, layer.name, config.r);
    if (!rank) return rank.failure();
    const auto alpha =
        of_pattern("alpha_pattern", config.alpha_pattern, layer.name, config.lora_alpha);
    if (!alpha) return alpha.failure();
    // As in PEFT any rank will do, above both sides of a matrix too. A part of the weights has at
    // most the rank of these.
    const int64_t most = std::min(layer.shape[0], layer.shape[1]);
    if (config.init.takes_from_weights() && rank.value() > most)
        return refuse(format_text(
            "lora_r = {}: {} is a matrix of {} x {}, and has no part of a rank above {}; give a "
            "smaller rank, or init_lora_weights true",
            rank.value(), layer.name, layer.shape[0], layer.shape[1], most));
    if (rank.value() < 1)
        return refuse(format_text("rank_pattern: the rank of {} is {}, and it must be above 0",
                                  layer.name, rank.value()));
    const auto r = static_cast<double>(rank.value());
    return model::AdapterSpec{rank.value(), alpha.value() / (config.use_rslora ? std::sqrt(r) : r),
                              config.lora_dropout, config.use_dora, config.lora_bias};
}

// PEFT's own rules.
std::optional<Failure> check_lora_bias(const LoraConfig& config, bool has_parameters) {
    if (!config.lora_bias) return std::nullopt;
    if (config.use_dora)
        return refuse(
            "lora_bias, use_dora: PEFT has no bias of B beside magnitudes; leave one out");
    if (config.init.kind != config::AdapterInit::Kind::uniform)
        return refuse(
            "lora_bias, init_lora_weights: PEFT has a bias of B beside uniform first values alone; "
            "leave one out");
    if (has_parameters)
        return refuse(
            "lora_bias: adapters of parameters (lora_target_parameters, or layers that PEFT takes "
            "for parameters) have no bias in PEFT; leave it out");
    return std::nullopt;
}

// Gives a layer an adapter of the learner. Returns false if it has one.
bool adapt(model::ModelSpec& spec, size_t learner, const model::LinearLayer& layer,
           const model::AdapterSpec& adapter) {
    auto& adapters =
        layer.block < spec.blocks.size() ? spec.blocks[layer.block].adapters : spec.adapters;
    return adapters.at(learner).layers.emplace(layer.in_block, adapter).second;
}

// The linear layers, the output layer and the embedding, whose block is the number of
// blocks.
std::vector<model::LinearLayer> with_ends(const model::ModelSpec& spec,
                                          std::vector<model::LinearLayer> layers) {
    const auto add = [&](const std::string& name, int64_t rows) {
        layers.push_back({name, spec.blocks.size(), name, {rows, spec.width}});
    };
    add(spec.names.head, spec.head_rows());
    add(spec.names.embedding, spec.vocabulary);
    return layers;
}

// Fails where the embedding or the output layer cannot have such an adapter.
std::optional<Failure> check_end(const model::ModelSpec& spec, const LoraConfig& config,
                                 const model::LinearLayer& layer) {
    if (layer.name == spec.names.head && spec.tied && config.init.takes_from_weights())
        return refuse(format_text(
            "lora_target_modules, init_lora_weights: {} is tied to the embedding, which would "
            "change with the part that the adapter takes out; leave one of the two out",
            spec.names.head));
    if (layer.name != spec.names.embedding) return std::nullopt;
    const auto refuse_beside = [&](const char* setting, const char* why) {
        return refuse(format_text("lora_target_modules, {}: {} {}; leave one of the two out",
                                  setting, spec.names.embedding, why));
    };
    if (config.use_dora) return refuse_beside("use_dora", "gets an adapter without magnitudes");
    if (config.init.takes_from_weights())
        return refuse_beside("init_lora_weights", "gets an adapter that begins with A = 0");
    if (config.lora_bias)
        return refuse_beside("lora_bias", "has no bias of B, and PEFT refuses it");
    return std::nullopt;
}

// The rows of a module that trained_tokens names; null: there is no such module.
std::vector<int64_t>* rows_of(model::ModelSpec& spec, const std::string& module) {
    if (module.empty() || is_end_of(module, spec.names.embedding))
        return &spec.trained_rows.embedding;
    return !spec.scores && is_end_of(module, spec.names.head) ? &spec.trained_rows.head : nullptr;
}

std::optional<Failure> check_trained_rows(const model::ModelSpec& spec, const LoraConfig& config) {
    const auto refuse_for = [&](const std::string& why) {
        return refuse(format_text("trainable_token_indices: {}", why));
    };
    const std::map<std::string, model::AdapterSpec>& adapted = spec.adapters.front().layers;
    if (adapted.contains(spec.names.head) || adapted.contains(spec.names.embedding))
        return refuse_for(
            "lora_target_modules names the embedding or the output layer too; leave one of the two "
            "out");
    for (const std::string& module : {spec.names.embedding, spec.names.head})
        if (is_saved(module, config.modules_to_save))
            return refuse_for(format_text(
                "lora_modules_to_save trains {} whole; leave one of the two out", module));
    const bool concerns_head =
        spec.trained_rows.head_has_those_of_embedding || !spec.trained_rows.head.empty();
    if (concerns_head && spec.has_head_bias)
        return refuse_for(format_text(
            "{} has a bias, which PEFT leaves out beside trained rows; name rows of {} alone",
            spec.names.head, spec.names.embedding));
    return std::nullopt;
}

// As in PEFT, the rows of a tied embedding are the output layer's too, unless this has other ones.
std::optional<Failure> train_rows(model::ModelSpec& spec, const LoraConfig& config) {
    for (const auto& [module, rows] : config.trained_tokens) {
        std::vector<int64_t>* const into = rows_of(spec, module);
        if (into == nullptr || !into->empty())
            return refuse(format_text("trainable_token_indices: {} {}; the modules are {} and {}",
                                      module, into == nullptr ? "has no rows" : "stands twice",
                                      spec.names.embedding, spec.names.head));
        for (const int64_t row : rows)
            if (row >= spec.vocabulary)
                return refuse(
                    format_text("trainable_token_indices: there is no token {}; the "
                                "vocabulary has {}",
                                row, spec.vocabulary));
        *into = rows;
    }
    model::TrainedRowsSpec& trained = spec.trained_rows;
    if (spec.tied && !trained.embedding.empty() &&
        (trained.head.empty() || trained.head == trained.embedding)) {
        trained.head.clear();
        trained.head_has_those_of_embedding = true;
    }
    return trained.empty() ? std::nullopt : check_trained_rows(spec, config);
}

// PEFT looks for the blocks in a list of this name.
std::optional<Failure> check_layers_pattern(const model::ModelSpec& spec,
                                            const LoraConfig& config) {
    const std::vector<std::string>& names = config.layers_pattern;
    if (names.empty()) return std::nullopt;
    if (!config.layers_to_transform)
        return refuse("layers_pattern: has a meaning beside layers_to_transform only: give both");
    const std::string& blocks = spec.names.blocks;
    const std::string list = blocks.substr(blocks.rfind('.') + 1);
    if (std::ranges::find(names, list) != names.end()) return std::nullopt;
    return refuse(format_text("layers_pattern = {}: the blocks of this model lie in '{}'",
                              join(names, ","), list));
}

std::optional<Failure> check_saved(const std::string& module,
                                   const std::vector<std::string>& tensors) {
    std::vector<std::string> modules{"lm_head"};
    for (const std::string& tensor : tensors) {
        modules.push_back(model::module_of(tensor));
        if (is_saved(modules.back(), {module})) return std::nullopt;
    }
    return refuse(
        format_text("lora_modules_to_save = {}: no module has this name; the nearest are {}",
                    module, nearest_names(module, modules)));
}

std::optional<Failure> freeze_base(model::ModelSpec& spec, const LoraConfig& config) {
    const std::vector<std::string> names = model::tensor_names(spec);
    const std::vector<shard::UnitLayout> modules = model::modules_of(spec);
    for (const std::string& module : config.modules_to_save)
        if (auto failure = check_saved(module, names)) return failure;
    spec.frozen = spec.never_trained();
    for (const std::string& name : names)
        if (!is_saved(model::module_of(name), config.modules_to_save)) spec.frozen.insert(name);
    for (const shard::UnitLayout& module : modules)
        for (const shard::ParameterGroup& group : module.groups()) {
            const auto count = std::ranges::count_if(group.tensors, [&](const auto& tensor) {
                return spec.frozen.contains(tensor.name);
            });
            if (count != 0 && count != std::ssize(group.tensors))
                return refuse(
                    format_text("lora_modules_to_save: {} and {} are one matrix product; name all "
                                "of its layers or none",
                                group.tensors.front().name, group.tensors.back().name));
        }
    for (const std::string& name : spec.frozen)
        if (spec.vocabulary > spec.stored_vocabulary && spec.has_row_for_each_token(name))
            return refuse(format_text(
                "{} has new rows for tokens of the tokenizer (added_tokens, chat_template_path), "
                "and would be frozen; train it whole: lora_modules_to_save embed_tokens,lm_head",
                name));
    return std::nullopt;
}

// PEFT would match the end of a name with layers in the other parts of a wrapped model, too.
void name_wholly(LoraConfig& config, const std::vector<const model::LinearLayer*>& targets,
                 const std::vector<std::string>& tensors) {
    config.target_modules.clear();
    config.targets_are_expression = false;
    config.layers_to_transform.reset();
    for (const model::LinearLayer* layer : targets) config.target_modules.push_back(layer->name);
    config.modules_to_save = whole_names(config.modules_to_save, tensors);
}

// Of the model: B of an adapter may have one of its own.
bool is_bias(const std::string& tensor) {
    return tensor.ends_with(".bias") && !tensor.ends_with(".lora_B.bias");
}

// The biases that train, in PEFT's way.
std::set<std::string> find_biases(const model::ModelSpec& spec, const LoraConfig& config,
                                  const std::vector<std::string>& tensors) {
    const std::map<std::string, model::AdapterSpec> adapted = spec.layers_of(0);
    const std::set<std::string> never = spec.never_trained();
    std::set<std::string> biases;
    for (const std::string& tensor : tensors)
        if (is_bias(tensor) && !never.contains(tensor) &&
            (config.bias == config::TrainedBiases::all ||
             adapted.contains(model::module_of(tensor))))
            biases.insert(tensor);
    return biases;
}

std::optional<Failure> train_biases(model::ModelSpec& spec, const LoraConfig& config) {
    if (config.bias == config::TrainedBiases::none) return std::nullopt;
    const std::set<std::string> biases = find_biases(spec, config, model::tensor_names(spec));
    const bool is_all = config.bias == config::TrainedBiases::all;
    if (is_all && spec.is_wrapped)
        return refuse(
            "bias = all: PEFT trains the biases of all parts of a wrapped model, and its text "
            "model is trained here; give bias lora_only");
    for (const std::string& bias : biases)
        if (is_all && is_saved(model::module_of(bias), config.modules_to_save))
            return refuse(
                format_text("bias = all: {} is of lora_modules_to_save, and PEFT stores its frozen "
                            "original too; leave the module out, or give bias lora_only",
                            bias));
    let_biases_train(spec, biases);
    return std::nullopt;
}

// Matrices may be turned where the model's are. Magnitudes and parts of weights go by the rows of
// [out, in].
std::optional<Failure> check_form_of_matrices(const model::ModelSpec& spec,
                                              const LoraConfig& config) {
    const auto refuse_setting = [&](const char* setting, const char* cure) {
        return refuse(
            format_text("{}: {} stores the transposes of its matrices, for which it is "
                        "not served; {}",
                        setting, spec.architecture, cure));
    };
    if (spec.blocks.front().matrices != model::MatrixForm::turned) {
        if (!config.fan_in_fan_out) return std::nullopt;
        return refuse(
            format_text("fan_in_fan_out = true: {} stores no transposes of its matrices; set it "
                        "to false",
                        spec.architecture));
    }
    if (config.use_dora) return refuse_setting("use_dora", "leave it out");
    if (config.init.takes_from_weights())
        return refuse_setting("init_lora_weights", "give true or gaussian");
    if (!config.target_parameters.empty())
        return refuse_setting("lora_target_parameters", "name layers in lora_target_modules");
    return std::nullopt;
}

// Whether the targets are those that all-linear becomes: then none of them stands for an expert.
bool names_all(const LoraConfig& config, const std::vector<model::LinearLayer>& layers) {
    std::set<std::string> ends;
    for (const model::LinearLayer& layer : layers)
        ends.insert(layer.name.substr(layer.name.rfind('.') + 1));
    const std::vector<std::string>& targets = config.target_modules;
    return !config.targets_are_expression &&
           std::set<std::string>(targets.begin(), targets.end()) == ends;
}

}  // namespace

void let_biases_train(model::ModelSpec& spec, const std::set<std::string>& biases) {
    const std::vector<shard::UnitLayout> modules = model::modules_of(spec);
    for (const std::string& bias : biases) spec.frozen.erase(bias);
    for (size_t block = 0; block < spec.blocks.size(); ++block)
        for (const shard::ParameterGroup& group :
             modules[model::ModuleIndex::block(block)].groups()) {
            const auto count = std::ranges::count_if(
                group.tensors, [&](const auto& tensor) { return biases.contains(tensor.name); });
            if (count != 0 && count != std::ssize(group.tensors))
                spec.blocks[block].has_biases_apart = true;
        }
}

namespace {

// Beside adapters a head of scores trains whole, as PEFT's task SEQ_CLS has it.
std::optional<Failure> settle_task(const model::ModelSpec& spec, LoraConfig& config) {
    const std::string task = "SEQ_CLS";
    if (!spec.scores)
        return config.task_type != task
                   ? std::nullopt
                   : std::optional(refuse(
                         "lora_task_type = SEQ_CLS: the adapter is of a model with a head of "
                         "scores, and this model has none; train it with method reward or "
                         "classification, and merge its checkpoint: trainer export CHECKPOINT "
                         "--merge true"));
    config.task_type = task;
    std::erase(config.modules_to_save, "classifier");  // which PEFT names beside the head
    if (!is_saved(spec.names.head, config.modules_to_save))
        config.modules_to_save.push_back(spec.names.head);
    return std::nullopt;
}

}  // namespace

std::optional<Failure> add_adapter(model::ModelSpec& spec, LoraConfig& config) {
    if (auto failure = settle_task(spec, config)) return failure;
    if (auto failure = check_form_of_matrices(spec, config)) return failure;
    config.fan_in_fan_out = spec.blocks.front().matrices == model::MatrixForm::turned;
    const auto saves = [&](const std::string& module) {
        return is_saved(module, config.modules_to_save);
    };
    // Training a copy of one of the two tied matrices unties them.
    if (spec.tied && (saves(spec.names.embedding) || saves(spec.names.head))) {
        spec.tied = false;
        spec.reads_head_from_embedding = true;
    }
    if (auto failure = freeze_base(spec, config)) return failure;
    const std::vector<model::LinearLayer> layers = model::linear_layers_of(spec);
    const bool is_all_linear = asks_for_all_linear(config) || names_all(config, layers);
    if (auto failure = settle_expert_targets(spec, config, layers)) return failure;
    const auto parameters = find_parameters(config, spec, layers, model::tensor_names(spec));
    if (!parameters) return parameters.failure();
    if (auto failure = check_lora_bias(config, !parameters.value().empty())) return failure;
    if (auto failure = check_layers_pattern(spec, config)) return failure;
    if (auto failure = settle_targets(spec, config, layers)) return failure;
    if (auto failure = refuse_experts(config, spec, is_all_linear)) return failure;
    const std::vector<model::LinearLayer> all = with_ends(spec, layers);
    const auto targets = find_targets(config, all);
    if (!targets) return targets.failure();
    const size_t learner = spec.add_learner("");
    for (const model::LinearLayer* layer : targets.value()) {
        auto adapter = adapter_of(config, *layer);
        if (!adapter) return adapter.failure();
        if (auto failure = check_end(spec, config, *layer)) return failure;
        if (layer->name == spec.names.embedding) adapter.value().dropout = 0;  // PEFT drops none
        adapt(spec, learner, *layer, adapter.value());
    }
    for (const model::LinearLayer& parameter : parameters.value()) {
        const auto adapter = adapter_of(config, parameter);
        if (!adapter) return adapter.failure();
        if (!adapt(spec, learner, parameter, adapter.value()))
            return refuse(
                format_text("lora_target_parameters: {} is of a layer that lora_target_modules "
                            "names too; name it once",
                            parameter.name));
    }
    if (auto failure = train_biases(spec, config)) return failure;
    if (auto failure = train_rows(spec, config)) return failure;
    if (spec.is_wrapped) name_wholly(config, targets.value(), model::tensor_names(spec));
    return std::nullopt;
}

bool has_adapters(const std::vector<shard::FlatUnit>& units) {
    return std::ranges::any_of(units, [](const shard::FlatUnit& unit) {
        return std::ranges::any_of(unit.tensors(), &shard::PlacedTensor::is_made_by_run);
    });
}

std::set<std::string> adapter_tensors(const model::ModelSpec& spec) {
    std::set<std::string> names;
    for (const shard::UnitLayout& module : model::modules_of(spec))
        for (const shard::ParameterGroup& group : module.groups())
            if (group.is_made_by_run)
                for (const shard::TensorSpec& tensor : group.tensors) names.insert(tensor.name);
    return names;
}

void turn_into_adapter_files(std::map<std::string, std::string>& files,
                             const std::string& adapter_config) {
    files.erase("config.json");
    files.erase("generation_config.json");
    const auto config = parse_adapter_config(adapter_config, adapter_config_name);
    files[adapter_config_name] = config && config.value().init.takes_from_weights()
                                     ? widened_adapter_config(adapter_config)
                                     : adapter_config;
}

bool trains_biases(const model::ModelSpec& spec, const LoraConfig& config) {
    const std::vector<std::string> names = model::tensor_names(spec);
    return std::ranges::any_of(names, [&](const std::string& name) {
        return is_bias(name) && !spec.frozen.contains(name) &&
               !is_saved(model::module_of(name), config.modules_to_save);
    });
}

std::string name_in_adapter(const std::string& tensor) {
    return adapter_prefix + model::name_in_transformers(tensor);
}

std::string name_in_adapter(const std::string& tensor, const std::set<std::string>& adapters) {
    const std::string layer = model::module_of(tensor);
    const bool is_below = is_bias(tensor) && adapters.contains(layer + ".lora_A.weight");
    return name_in_adapter(is_below ? layer + ".base_layer.bias" : tensor);
}

}  // namespace ringshard::peft
