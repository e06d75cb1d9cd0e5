#include "adapter_targets.hpp"

#include <algorithm>
#include <set>

#include "module_names.hpp"
#include "ringshard/base/name_patterns.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::peft {

namespace {

// PEFT cannot load an expression that matches other modules: those around linear layers, and those
// that have no adapter here.
std::optional<Failure> check_expression(const std::string& expression,
                                        const std::vector<model::LinearLayer>& layers) {
    std::set<std::string> others;
    if (!layers.empty()) {
        const std::string& name = layers.front().name;
        const std::string prefix = name.substr(0, name.find("layers."));
        others.insert(prefix + "norm");
    }
    for (const model::LinearLayer& layer : layers) {
        for (size_t end = layer.name.find('.'); end != std::string::npos;
             end = layer.name.find('.', end + 1))
            others.insert(layer.name.substr(0, end));
        if (layer.in_block.starts_with("mlp."))
            others.insert(layer.name.substr(0, layer.name.rfind(layer.in_block)) + "mlp.act_fn");
    }
    const auto found = names_that_match("lora_target_modules", expression, Fit::whole,
                                        {others.begin(), others.end()});
    if (!found) return found.failure();
    if (found.value().empty()) return std::nullopt;
    return refuse(
        format_text("lora_target_modules = {}: matches {}, which is no linear layer, and "
                    "PEFT refuses that; name the layers, as .*\\.(q_proj|v_proj)",
                    expression, *found.value().begin()));
}

std::optional<Failure> check_target(const std::string& target,
                                    const std::vector<model::LinearLayer>& layers) {
    std::vector<std::string> names;
    for (const model::LinearLayer& layer : layers) {
        if (is_end_of(target, layer.name)) return std::nullopt;
        names.push_back(layer.in_block);
    }
    names.emplace_back("all-linear");
    std::ranges::sort(names);
    names.erase(std::ranges::unique(names).begin(), names.end());
    return refuse(format_text(
        "lora_target_modules = {}: no linear layer has this name; the nearest are {}{}", target,
        nearest_names(target, names),
        is_plain_name(target) ? "" : ". An expression stands alone, as .*\\.(q_proj|v_proj)"));
}

// A full name matches in every block, as in PEFT.
bool is_in_range(const LoraConfig& config, const model::LinearLayer& layer) {
    const auto& blocks = config.layers_to_transform;
    return !blocks || blocks->empty() ||
           std::ranges::find(*blocks, static_cast<int64_t>(layer.block)) != blocks->end() ||
           std::ranges::find(config.target_modules, layer.name) != config.target_modules.end();
}

}  // namespace

bool is_plain_name(const std::string& text) {
    return text.find_first_not_of(
               "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") ==
           std::string::npos;
}

Expected<std::set<std::string>> find_excluded(const LoraConfig& config,
                                              const std::vector<std::string>& layers) {
    const std::vector<std::string>& excluded = config.exclude_modules;
    if (config.exclusion_is_expression)
        return names_that_match("exclude_modules", excluded.front(), Fit::whole, layers);
    std::set<std::string> found;
    for (const std::string& layer : layers)
        if (std::ranges::any_of(excluded,
                                [&](const std::string& end) { return is_end_of(end, layer); }))
            found.insert(layer);
    return found;
}

std::vector<std::string> names_of(const std::vector<model::LinearLayer>& layers) {
    std::vector<std::string> names;
    for (const model::LinearLayer& layer : layers) names.push_back(layer.name);
    return names;
}

bool asks_for_all_linear(const LoraConfig& config) {
    const std::vector<std::string>& targets = config.target_modules;
    return targets.size() == 1 && lower_case(targets.front()) == "all-linear";
}

namespace {

// Returns a router that is one of the layers of all-linear in PEFT; routers take no adapter here.
// Empty: the model has none.
std::string router_among_layers(const model::ModelSpec& spec) {
    for (const model::BlockSpec& block : spec.blocks)
        if (const model::ExpertsSpec* const experts = block.experts();
            experts != nullptr && experts->router_is_layer &&
            experts->tensors == model::ExpertTensors::stacked)
            return experts->router;
    return {};
}

}  // namespace

std::optional<Failure> settle_targets(const model::ModelSpec& spec, LoraConfig& config,
                                      const std::vector<model::LinearLayer>& layers) {
    std::vector<std::string>& targets = config.target_modules;
    const auto add_ends = [&](const auto& wanted) {
        for (const model::LinearLayer& layer : layers) {
            const std::string end = layer.name.substr(layer.name.rfind('.') + 1);
            if (wanted(end) && std::ranges::find(targets, end) == targets.end())
                targets.push_back(end);
        }
    };
    if (asks_for_all_linear(config)) {
        if (const std::string router = router_among_layers(spec); !router.empty())
            return refuse(
                format_text("lora_target_modules = all-linear: names the router {} too, as in "
                            "PEFT, and routers of {} take no adapter; name the other layers",
                            router, spec.architecture));
        targets.clear();
        config.targets_are_expression = false;
        add_ends([](const std::string&) { return true; });
    } else if (targets.empty()) {
        config.targets_are_expression = false;
        if (config.has_no_modules) return std::nullopt;
        const std::vector<std::string>& theirs = spec.peft.targets;
        if (theirs.empty() && !config.target_parameters.empty()) return std::nullopt;
        const std::vector<std::string> ends =
            theirs.empty() ? std::vector<std::string>{"q_proj", "v_proj"} : theirs;
        add_ends(
            [&](const std::string& end) { return std::ranges::find(ends, end) != ends.end(); });
        if (targets.empty()) {
            std::vector<std::string> names;
            for (const model::LinearLayer& layer : layers) names.push_back(layer.name);
            return refuse(
                format_text("lora_target_modules is not set, and PEFT has no default layers for "
                            "this model; name them, as {}, or all-linear",
                            nearest_names("qkv_proj", names)));
        }
    }
    if (config.targets_are_expression && is_plain_name(targets.front()))
        config.targets_are_expression = false;
    return std::nullopt;
}

Expected<std::vector<const model::LinearLayer*>> find_targets(
    const LoraConfig& config, const std::vector<model::LinearLayer>& layers) {
    if (config.target_modules.empty()) return std::vector<const model::LinearLayer*>();
    std::set<std::string> named;
    const std::vector<std::string>& targets = config.target_modules;
    const std::vector<std::string> names = names_of(layers);
    if (config.targets_are_expression) {
        auto matching = names_that_match("lora_target_modules", targets.front(), Fit::whole, names);
        if (!matching) return matching.failure();
        named = std::move(matching).value();
        if (auto failure = check_expression(targets.front(), layers)) return *failure;
        if (config.layers_to_transform && !config.layers_to_transform->empty())
            return refuse(format_text(
                "layers_to_transform: lora_target_modules = {} is an expression, which chooses "
                "layers itself; leave one of the two out, or name layers by their ends",
                targets.front()));
    } else {
        for (const std::string& target : targets)
            if (auto failure = check_target(target, layers)) return *failure;
    }
    const auto excluded = find_excluded(config, names);
    if (!excluded) return excluded.failure();
    std::vector<const model::LinearLayer*> found;
    for (const model::LinearLayer& layer : layers) {
        const auto names_it = [&](const std::string& end) { return is_end_of(end, layer.name); };
        const bool is_named = config.targets_are_expression
                                  ? named.contains(layer.name)
                                  : std::ranges::any_of(targets, names_it);
        if (is_named && is_in_range(config, layer) && !excluded.value().contains(layer.name) &&
            !is_saved(layer.name, config.modules_to_save))
            found.push_back(&layer);
    }
    if (!found.empty()) return found;
    return refuse(format_text(
        "lora_target_modules = {}: matches no linear layer of the model{}; the nearest are {}",
        join(targets, ","),
        config.layers_to_transform || !config.exclude_modules.empty()
            ? " that layers_to_transform and exclude_modules leave"
            : "",
        nearest_names(targets.front(), names)));
}

std::optional<Failure> refuse_experts(const LoraConfig& config, const model::ModelSpec& spec,
                                      bool is_all_linear) {
    const std::vector<std::string> modules = model::other_products_of(spec);
    std::set<std::string> named;
    if (config.targets_are_expression) {
        auto matching = names_that_match("lora_target_modules", config.target_modules.front(),
                                         Fit::whole, modules);
        if (!matching) return matching.failure();
        named = std::move(matching).value();
    }
    for (const std::string& module : modules) {
        const auto names_it = [&](const std::string& end) { return is_end_of(end, module); };
        const bool is_target = config.targets_are_expression
                                   ? named.contains(module)
                                   : std::ranges::any_of(config.target_modules, names_it);
        if (is_target && !is_all_linear)
            return refuse(
                format_text("lora_target_modules = {}: {} is a router or an expert, and adapters "
                            "are for linear layers alone; name layers of the attention, as "
                            "q_proj,v_proj{}",
                            join(config.target_modules, ","), module,
                            router_among_layers(spec).empty() ? ", or all-linear" : ""));
        if (is_saved(module, config.modules_to_save))
            return refuse(
                format_text("lora_modules_to_save = {}: {} is a router or an expert, of which PEFT "
                            "has no copy; train the model without adapters: --train_only REGEX",
                            join(config.modules_to_save, ","), module));
    }
    return std::nullopt;
}

}  // namespace ringshard::peft
