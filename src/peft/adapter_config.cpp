#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/shown.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/peft/adapters.hpp"

namespace ringshard::peft {

using config::TrainedBiases;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

// All fields that PEFT 0.21 writes, as they are for an adapter without any extra.
constexpr const char* plain_config = R"({
  "alora_invocation_tokens": null, "alpha_pattern": {}, "arrow_config": null, "auto_mapping": null,
  "base_model_name_or_path": null, "bias": "none", "corda_config": null,
  "ensure_weight_tying": false, "eva_config": null, "exclude_modules": null,
  "fan_in_fan_out": false, "inference_mode": true, "init_lora_weights": true, "kasa_config": null,
  "layer_replication": null, "layers_pattern": null, "layers_to_transform": null,
  "loftq_config": {}, "lora_alpha": 8, "lora_bias": false, "lora_dropout": 0.0,
  "lora_ga_config": null, "megatron_config": null, "megatron_core": "megatron.core",
  "modules_to_save": null, "monteclora_config": null, "peft_type": "LORA",
  "peft_version": "0.21.2", "qalora_group_size": 16, "r": 8, "rank_pattern": {}, "revision": null,
  "target_modules": null, "target_parameters": null, "task_type": null,
  "trainable_token_indices": null, "use_bdlora": null, "use_dora": false, "use_qalora": false,
  "use_rslora": false, "velora_config": null})";

// Fields that the reader uses, and fields that change no number.
constexpr std::array<std::string_view, 27> known_fields{"alpha_pattern",
                                                        "auto_mapping",
                                                        "base_model_name_or_path",
                                                        "bias",
                                                        "eva_config",
                                                        "exclude_modules",
                                                        "fan_in_fan_out",
                                                        "inference_mode",
                                                        "layers_pattern",
                                                        "layers_to_transform",
                                                        "lora_alpha",
                                                        "lora_bias",
                                                        "lora_dropout",
                                                        "megatron_core",
                                                        "modules_to_save",
                                                        "peft_version",
                                                        "qalora_group_size",
                                                        "r",
                                                        "rank_pattern",
                                                        "revision",
                                                        "runtime_config",
                                                        "target_modules",
                                                        "target_parameters",
                                                        "task_type",
                                                        "trainable_token_indices",
                                                        "use_dora",
                                                        "use_rslora"};

std::string text_of(const config::AdapterInit& init) {
    using Kind = config::AdapterInit::Kind;
    if (init.iterations) return format_text("pissa_niter_{}", *init.iterations);
    if (init.kind == Kind::uniform) return "true";
    if (init.kind == Kind::normal) return "gaussian";
    return init.kind == Kind::pissa ? "pissa" : "olora";
}

constexpr std::pair<const char*, TrainedBiases> names_of_biases[] = {
    {"none", TrainedBiases::none},
    {"all", TrainedBiases::all},
    {"lora_only", TrainedBiases::lora_only}};

const char* text_of(TrainedBiases biases) {
    for (const auto& [name, value] : names_of_biases)
        if (value == biases) return name;
    return "";
}

std::optional<TrainedBiases> read_biases(const std::string& text) {
    for (const auto& [name, value] : names_of_biases)
        if (name == text) return value;
    return std::nullopt;
}

bool asks_for_nothing(const json& value) {
    return value.is_null() || value == false || value == json::object() || value == json::array();
}

// Returns a failure for the first field that asks for an unsupported feature.
std::string find_unknown(const json& config) {
    const json plain = parse_json<json>(plain_config).value();
    for (const auto& [name, value] : config.items()) {
        if (std::ranges::find(known_fields, name) != known_fields.end()) continue;
        if (asks_for_nothing(value) ||
            (name == "init_lora_weights" && value.is_string() && config::read_adapter_init(value)))
            continue;
        if (!plain.contains(name) || plain[name] != value) return name;
    }
    return {};
}

template <class Number>
json whole_if_it_is(Number value) {
    const auto whole = static_cast<int64_t>(value);
    return static_cast<Number>(whole) == value ? json(whole) : json(value);
}

std::vector<std::string> sorted(std::vector<std::string> names) {
    std::ranges::sort(names);
    return names;
}

// Names, or an expression.
bool read_names(const json& field, std::vector<std::string>& names) {
    if (field.is_null()) return false;
    names = field.is_string() ? std::vector{field.get<std::string>()}
                              : field.get<std::vector<std::string>>();
    return field.is_string();
}

template <class Value>
Patterns<Value> read_patterns(const ordered_json& field) {
    Patterns<Value> patterns;
    for (const auto& [pattern, value] : field.items())
        patterns.emplace_back(pattern, value.template get<Value>());
    return patterns;
}

// As in PEFT, blocks are chosen among named targets. Returns the failure of
// fields that contradict this, or an empty text.
std::string find_contradiction(const json& config) {
    const auto field = [&](const char* name) { return config.value(name, json()); };
    const json layers = field("layers_to_transform");
    const json pattern = field("layers_pattern");
    if (!layers.is_null() && field("target_modules").is_string())
        return "layers_to_transform: target_modules is an expression, which chooses layers itself";
    if (field("target_modules") == json::array() && asks_for_nothing(field("target_parameters")))
        return "target_modules is empty: name linear layers, or all-linear";
    if (asks_for_nothing(pattern) || pattern == "") return {};
    return layers.is_null() ? "layers_pattern has a meaning beside layers_to_transform only" : "";
}

bool is_whole(const json& value) { return value.is_number_integer(); }
bool is_text(const json& value) { return value.is_string(); }

template <class Predicate>
bool is_list_of(const json& value, Predicate fits) {
    return value.is_array() && std::ranges::all_of(value, fits);
}

// A test that a field has a value of its kind, and the rule for messages.
struct FieldRule {
    std::string_view name;
    const char* rule;
    bool (*fits)(const json&);
};

bool are_names(const json& value) { return value.is_null() || is_list_of(value, is_text); }
bool are_targets(const json& value) { return value.is_string() || are_names(value); }
bool is_flag(const json& value) { return value.is_boolean(); }
bool is_number(const json& value) { return value.is_number(); }
bool is_dropout(const json& value) { return value.is_number() && value >= 0 && value < 1; }
bool is_served_task(const json& value) {
    return value.is_null() || value == "CAUSAL_LM" || value == "SEQ_CLS";
}
bool are_biases(const json& value) { return value.is_string() && read_biases(value).has_value(); }
bool are_blocks(const json& value) {
    return value.is_null() || is_whole(value) || is_list_of(value, is_whole);
}
bool are_ranks(const json& value) {
    return value.is_null() || (value.is_object() && std::ranges::all_of(value, is_whole));
}
bool are_alphas(const json& value) {
    return value.is_null() || (value.is_object() && std::ranges::all_of(value, is_number));
}

bool are_trained_tokens(const json& value) {
    return config::read_trained_tokens(value.dump()).has_value();
}

constexpr const char* targets_rule = "must be names, one expression, or null";
constexpr std::array<FieldRule, 18> field_rules{{
    {"r", "must be a whole number", is_whole},
    {"lora_alpha", "must be a number", is_number},
    {"lora_dropout", "must be at least 0 and below 1", is_dropout},
    {"use_rslora", "must be true or false", is_flag},
    {"use_dora", "must be true or false", is_flag},
    {"fan_in_fan_out", "must be true or false", is_flag},
    {"lora_bias", "must be true or false", is_flag},
    {"bias", "must be none, all or lora_only", are_biases},
    {"target_modules", targets_rule, are_targets},
    {"exclude_modules", targets_rule, are_targets},
    {"target_parameters", "must be a list of names, or null", are_names},
    {"modules_to_save", "must be a list of names, or null", are_names},
    {"rank_pattern", "must hold a whole number for each expression", are_ranks},
    {"alpha_pattern", "must hold a number for each expression", are_alphas},
    {"layers_to_transform", "must be a number of a block, a list of them, or null", are_blocks},
    {"layers_pattern", "must be a name, a list of names, or null", are_targets},
    {"trainable_token_indices", "must be whole numbers, lists of them by module, or null",
     are_trained_tokens},
    {"task_type", "must be CAUSAL_LM, SEQ_CLS or null", is_served_task},
}};

// The first field whose value has another kind, with the rule; else an empty text.
std::string find_misfit(const json& config) {
    for (const auto& [name, rule, fits] : field_rules)
        if (const auto field = config.find(name); field != config.end() && !fits(*field))
            return format_text("{} = {}: {}", name, field->dump(), rule);
    return {};
}

// Requires fields of their kinds: find_misfit() has returned an empty text.
LoraConfig read_adapter_fields(const json& config, const ordered_json& in_order) {
    LoraConfig lora;
    lora.r = config.value("r", lora.r);
    lora.lora_alpha = config.value("lora_alpha", lora.lora_alpha);
    lora.lora_dropout = config.value("lora_dropout", lora.lora_dropout);
    lora.use_rslora = config.value("use_rslora", false);
    lora.use_dora = config.value("use_dora", false);
    lora.fan_in_fan_out = config.value("fan_in_fan_out", false);
    lora.lora_bias = config.value("lora_bias", false);
    if (const json init = config.value("init_lora_weights", json()); init.is_string())
        lora.init = config::read_adapter_init(init).value_or(config::AdapterInit());
    if (config.contains("bias")) lora.bias = *read_biases(config["bias"]);
    const auto given = [&](const char* name) {
        return config.contains(name) && !config[name].is_null();
    };
    if (given("task_type")) lora.task_type = config["task_type"].get<std::string>();
    lora.targets_are_expression =
        read_names(config.value("target_modules", json()), lora.target_modules);
    lora.exclusion_is_expression =
        read_names(config.value("exclude_modules", json()), lora.exclude_modules);
    lora.has_no_modules = config.value("target_modules", json()) == json::array();
    if (given("target_parameters"))
        lora.target_parameters = config["target_parameters"].get<std::vector<std::string>>();
    if (given("modules_to_save"))
        lora.modules_to_save = config["modules_to_save"].get<std::vector<std::string>>();
    if (given("rank_pattern")) lora.rank_pattern = read_patterns<int64_t>(in_order["rank_pattern"]);
    if (given("alpha_pattern"))
        lora.alpha_pattern = read_patterns<double>(in_order["alpha_pattern"]);
    if (given("layers_to_transform")) {
        const json& layers = config["layers_to_transform"];
        lora.layers_to_transform = layers.is_number() ? std::vector{layers.get<int64_t>()}
                                                      : layers.get<std::vector<int64_t>>();
    }
    read_names(config.value("layers_pattern", json()), lora.layers_pattern);
    if (given("trainable_token_indices"))
        lora.trained_tokens =
            config::read_trained_tokens(config["trainable_token_indices"].dump()).value();
    std::erase(lora.layers_pattern, "");  // PEFT takes an empty name for none
    return lora;
}

}  // namespace

Expected<LoraConfig> parse_adapter_config(const std::string& text, const std::string& file) {
    const auto refuse = [&](const std::string& what) {
        return Failure{ExitCode::bad_data, format_text("{}: {}", file, what)};
    };
    const json config = json_or_null<json>(text);
    if (!config.is_object()) return refuse("is not the configuration of an adapter");
    if (config.value("peft_type", json()) != "LORA")
        return refuse(format_text("peft_type is {}, and LORA is served",
                                  shown(config.value("peft_type", json()).dump())));
    if (const std::string unknown = find_unknown(config); !unknown.empty())
        return refuse(format_text("{} = {} is not served; train this adapter with PEFT", unknown,
                                  shown(config[unknown].dump())));
    if (const std::string misfit = find_misfit(config); !misfit.empty()) return refuse(misfit);
    if (const std::string problem = find_contradiction(config); !problem.empty())
        return refuse(problem);
    return read_adapter_fields(config, parse_json<ordered_json>(text).value());
}

std::string print_adapter_config(const LoraConfig& lora, const std::string& base) {
    json config = parse_json<json>(plain_config).value();
    config["base_model_name_or_path"] = base;
    config["r"] = lora.r;
    config["lora_alpha"] = whole_if_it_is(lora.lora_alpha);
    config["lora_dropout"] = lora.lora_dropout;
    config["use_rslora"] = lora.use_rslora;
    config["use_dora"] = lora.use_dora;
    config["lora_bias"] = lora.lora_bias;
    config["fan_in_fan_out"] = lora.fan_in_fan_out;
    if (const std::string init = text_of(lora.init); init != "true")
        config["init_lora_weights"] = init;
    config["bias"] = text_of(lora.bias);
    config["task_type"] = lora.task_type;
    if (lora.targets_are_expression)
        config["target_modules"] = lora.target_modules.front();
    else
        config["target_modules"] = sorted(lora.target_modules);
    if (!lora.target_parameters.empty())
        config["target_parameters"] = sorted(lora.target_parameters);
    if (lora.exclusion_is_expression)
        config["exclude_modules"] = lora.exclude_modules.front();
    else if (!lora.exclude_modules.empty())
        config["exclude_modules"] = sorted(lora.exclude_modules);
    if (!lora.modules_to_save.empty()) config["modules_to_save"] = sorted(lora.modules_to_save);
    for (const auto& [layers, rank] : lora.rank_pattern) config["rank_pattern"][layers] = rank;
    for (const auto& [layers, alpha] : lora.alpha_pattern)
        config["alpha_pattern"][layers] = whole_if_it_is(alpha);
    if (lora.layers_to_transform) config["layers_to_transform"] = *lora.layers_to_transform;
    if (!lora.layers_pattern.empty()) config["layers_pattern"] = lora.layers_pattern;
    for (const auto& [module, tokens] : lora.trained_tokens) {
        json& field = config["trainable_token_indices"];
        (module.empty() ? field : field[module]) = tokens;
    }
    return config.dump(2, ' ', false, json::error_handler_t::replace);
}

std::string widened_adapter_config(const std::string& text) {
    json config = parse_json<json>(text).value();
    const double more = config["use_rslora"] == true ? std::sqrt(2.0) : 2.0;
    config["init_lora_weights"] = true;
    config["r"] = 2 * config["r"].get<int64_t>();
    config["lora_alpha"] = whole_if_it_is(more * config["lora_alpha"].get<double>());
    for (auto& [layers, rank] : config["rank_pattern"].items()) rank = 2 * rank.get<int64_t>();
    for (auto& [layers, alpha] : config["alpha_pattern"].items())
        alpha = whole_if_it_is(more * alpha.get<double>());
    return config.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace ringshard::peft
