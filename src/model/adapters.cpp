#include "ringshard/model/adapters.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <regex>

#include "model_parts.hpp"
#include "nearest_names.hpp"
#include "ringshard/base/text.hpp"
#include "token_rows.hpp"

namespace ringshard::model {

namespace {

constexpr const char* adapter_prefix = "base_model.model.";

template <class... Parts>
Failure refuse(const Parts&... parts) {
    return {ExitCode::settings, concat(parts...)};
}

// The library throws where an expression is none.
std::optional<std::regex> read_regex(const std::string& text) {
    try {
        return std::regex(text, std::regex::ECMAScript | std::regex::optimize);
    } catch (const std::regex_error&) {
        return std::nullopt;
    }
}

// A linear layer of a block.
struct Layer {
    std::string name;  // "model.layers.0.mlp.down_proj"
    size_t block;
    std::string in_block;  // "mlp.down_proj"
    std::vector<int64_t> shape;
};

std::vector<Layer> linear_layers_of(const ModelParts& parts) {
    constexpr std::string_view ending = ".weight";
    std::vector<Layer> layers;
    for (size_t block = 0; block < parts.blocks.size(); ++block) {
        const shard::UnitLayout& module = parts.modules[ModuleIndex::block(block)];
        for (const shard::ParameterGroup& group : module.groups())
            for (const shard::TensorSpec& tensor : group.tensors) {
                if (tensor.shape.size() != 2 || group.is_adapter) continue;
                const std::string name = tensor.name.substr(0, tensor.name.size() - ending.size());
                layers.push_back({name, block, name.substr(module.prefix().size()), tensor.shape});
            }
    }
    return layers;
}

bool is_end_of(const std::string& end, const std::string& name) {
    return name == end || name.ends_with("." + end);
}

// Whether a module is one of modules_to_save, or lies in one.
bool is_saved(const std::string& module, const std::vector<std::string>& modules_to_save) {
    for (size_t end = 0; end != std::string::npos;) {
        end = module.find('.', end + 1);
        for (const std::string& saved : modules_to_save)
            if (is_end_of(saved, module.substr(0, end))) return true;
    }
    return false;
}

bool is_plain_name(const std::string& text) {
    return text.find_first_not_of(
               "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") ==
           std::string::npos;
}

// "all-linear" and missing targets become names, as PEFT does it; a name that stands alone is the
// end of a name, and no expression.
std::optional<Failure> settle_targets(LoraConfig& config, const std::vector<Layer>& layers) {
    std::vector<std::string>& targets = config.target_modules;
    const auto add_ends = [&](const auto& wanted) {
        for (const Layer& layer : layers) {
            const std::string end = layer.name.substr(layer.name.rfind('.') + 1);
            if (wanted(end) && std::ranges::find(targets, end) == targets.end())
                targets.push_back(end);
        }
    };
    if (targets.size() == 1 && lower_case(targets.front()) == "all-linear") {
        targets.clear();
        config.targets_are_expression = false;
        add_ends([](const std::string&) { return true; });
    } else if (targets.empty()) {
        config.targets_are_expression = false;
        add_ends([](const std::string& end) { return end == "q_proj" || end == "v_proj"; });
        if (targets.empty()) {
            std::vector<std::string> names;
            for (const Layer& layer : layers) names.push_back(layer.name);
            return refuse(
                "lora_target_modules is not set, and PEFT knows no layers for this model; "
                "name them, as ",
                nearest_names("qkv_proj", names), ", or all-linear");
        }
    }
    if (config.targets_are_expression && is_plain_name(targets.front()))
        config.targets_are_expression = false;
    return std::nullopt;
}

std::optional<Failure> check_target(const std::string& target, const std::vector<Layer>& layers) {
    for (const auto* whole : {"lm_head", "embed_tokens"})
        if (is_end_of(whole, target))
            return refuse("lora_target_modules = ", target,
                          ": adapters belong to linear layers of blocks; train this module whole: "
                          "lora_modules_to_save ",
                          whole);
    std::vector<std::string> names;
    for (const Layer& layer : layers) {
        if (is_end_of(target, layer.name)) return std::nullopt;
        names.push_back(layer.in_block);
    }
    std::ranges::sort(names);
    names.erase(std::ranges::unique(names).begin(), names.end());
    return refuse("lora_target_modules = ", target,
                  ": no linear layer has this name; the nearest are ",
                  nearest_names(target, names));
}

Expected<std::vector<const Layer*>> find_targets(const LoraConfig& config,
                                                 const std::vector<Layer>& layers) {
    std::optional<std::regex> expression;
    const std::vector<std::string>& targets = config.target_modules;
    if (config.targets_are_expression) {
        expression = read_regex(targets.front());
        if (!expression)
            return refuse("lora_target_modules = ", targets.front(),
                          ": is no regular expression (ECMAScript's syntax)");
    } else {
        for (const std::string& target : targets)
            if (auto failure = check_target(target, layers)) return *failure;
    }
    std::vector<const Layer*> found;
    for (const Layer& layer : layers) {
        const auto names_it = [&](const std::string& end) { return is_end_of(end, layer.name); };
        const bool is_named = expression ? std::regex_match(layer.name, *expression)
                                         : std::ranges::any_of(targets, names_it);
        const auto& blocks = config.layers_to_transform;
        const bool is_in_range =
            !blocks || blocks->empty() ||
            std::ranges::find(*blocks, static_cast<int64_t>(layer.block)) != blocks->end();
        if (is_named && is_in_range && !is_saved(layer.name, config.modules_to_save))
            found.push_back(&layer);
    }
    if (!found.empty()) return found;
    std::vector<std::string> names;
    for (const Layer& layer : layers) names.push_back(layer.name);
    return refuse("lora_target_modules = ", join(targets, ","),
                  ": matches no linear layer of the model; the nearest are ",
                  nearest_names(targets.front(), names));
}

template <class Value>
Expected<Value> of_pattern(const std::map<std::string, Value>& patterns, const std::string& layer,
                           Value otherwise) {
    for (const auto& [pattern, value] : patterns) {
        const auto regex = read_regex(concat("(.*\\.)?(", pattern, ")"));
        if (!regex)
            return refuse("rank_pattern, alpha_pattern: ", pattern, " is no regular expression");
        if (std::regex_match(layer, *regex)) return value;
    }
    return otherwise;
}

Expected<AdapterSpec> adapter_of(const LoraConfig& config, const Layer& layer) {
    const auto rank = of_pattern(config.rank_pattern, layer.name, config.r);
    if (!rank) return rank.failure();
    const auto alpha = of_pattern(config.alpha_pattern, layer.name, config.lora_alpha);
    if (!alpha) return alpha.failure();
    const int64_t most = std::min(layer.shape[0], layer.shape[1]);
    if (rank.value() < 1 || rank.value() > most)
        return refuse("lora_r = ", rank.value(), ": ", layer.name, " is a matrix of ",
                      layer.shape[0], " x ", layer.shape[1], "; a rank is from 1 to ", most);
    const auto r = static_cast<double>(rank.value());
    return AdapterSpec{rank.value(), alpha.value() / (config.use_rslora ? std::sqrt(r) : r),
                       config.lora_dropout, config.use_dora};
}

std::vector<std::string> tensor_names(const ModelParts& parts) {
    std::vector<std::string> names;
    for (const shard::UnitLayout& module : parts.modules)
        for (const shard::ParameterGroup& group : module.groups())
            for (const shard::TensorSpec& tensor : group.tensors) names.push_back(tensor.name);
    return names;
}

std::string module_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

std::optional<Failure> check_saved(const std::string& module,
                                   const std::vector<std::string>& tensors) {
    std::vector<std::string> modules{"lm_head"};
    for (const std::string& tensor : tensors) {
        modules.push_back(module_of(tensor));
        if (is_saved(modules.back(), {module})) return std::nullopt;
    }
    return refuse("lora_modules_to_save = ", module, ": no module has this name; the nearest are ",
                  nearest_names(module, modules));
}

std::optional<Failure> freeze_base(ModelSpec& spec, const LoraConfig& config) {
    const ModelParts parts(spec);
    const std::vector<std::string> names = tensor_names(parts);
    for (const std::string& module : config.modules_to_save)
        if (auto failure = check_saved(module, names)) return failure;
    spec.frozen.clear();
    for (const std::string& name : names)
        if (!is_saved(module_of(name), config.modules_to_save)) spec.frozen.insert(name);
    for (const shard::UnitLayout& module : parts.modules)
        for (const shard::ParameterGroup& group : module.groups()) {
            const auto count = std::ranges::count_if(group.tensors, [&](const auto& tensor) {
                return spec.frozen.contains(tensor.name);
            });
            if (count != 0 && count != std::ssize(group.tensors))
                return refuse("lora_modules_to_save: ", group.tensors.front().name, " and ",
                              group.tensors.back().name,
                              " are one matrix product; name all of its layers or none");
        }
    for (const std::string& name : spec.frozen)
        if (spec.vocabulary > spec.stored_vocabulary && has_row_for_each_token({name, {}}))
            return refuse(name,
                          " has new rows for tokens of the tokenizer (added_tokens, "
                          "chat_template_path), and would be frozen; train it whole: "
                          "lora_modules_to_save embed_tokens,lm_head");
    return std::nullopt;
}

}  // namespace

std::optional<Failure> add_adapters(ModelSpec& spec, LoraConfig& config) {
    const auto saves = [&](const char* module) { return is_saved(module, config.modules_to_save); };
    // A trained copy of the one is not the other's any more.
    if (spec.tied && (saves("model.embed_tokens") || saves("lm_head"))) {
        spec.tied = false;
        spec.reads_head_from_embedding = true;
    }
    if (auto failure = freeze_base(spec, config)) return failure;
    const std::vector<Layer> layers = linear_layers_of(ModelParts(spec));
    if (auto failure = settle_targets(config, layers)) return failure;
    const auto targets = find_targets(config, layers);
    if (!targets) return targets.failure();
    for (const Layer* layer : targets.value()) {
        const auto adapter = adapter_of(config, *layer);
        if (!adapter) return adapter.failure();
        spec.blocks[layer->block].adapters[layer->in_block] = adapter.value();
    }
    return std::nullopt;
}

bool has_adapters(const ModelSpec& spec) {
    return std::ranges::any_of(spec.blocks,
                               [](const BlockSpec& block) { return !block.adapters.empty(); });
}

bool has_dropout(const ModelSpec& spec) {
    return std::ranges::any_of(spec.blocks, [](const BlockSpec& block) {
        return std::ranges::any_of(block.adapters,
                                   [](const auto& adapter) { return adapter.second.dropout > 0; });
    });
}

bool has_adapters(const std::vector<shard::FlatUnit>& units) {
    return std::ranges::any_of(units, [](const shard::FlatUnit& unit) {
        return std::ranges::any_of(unit.tensors(), &shard::PlacedTensor::is_adapter);
    });
}

std::set<std::string> adapter_tensors(const ModelSpec& spec) {
    std::set<std::string> names;
    for (const shard::UnitLayout& module : ModelParts(spec).modules)
        for (const shard::ParameterGroup& group : module.groups())
            if (group.is_adapter)
                for (const shard::TensorSpec& tensor : group.tensors) names.insert(tensor.name);
    return names;
}

void turn_into_adapter_files(std::map<std::string, std::string>& files,
                             const std::string& adapter_config) {
    files.erase("config.json");
    files.erase("generation_config.json");
    files[adapter_config_name] = adapter_config;
}

std::string name_in_adapter(const std::string& tensor) { return adapter_prefix + tensor; }

}  // namespace ringshard::model
