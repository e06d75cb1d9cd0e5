#include "expert_targets.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "module_names.hpp"
#include "ringshard/base/name_patterns.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::peft {

namespace {

// The names that PEFT converts; nullptr: none.
const model::ExpertsSpec* converted_experts(const model::ModelSpec& spec) {
    if (!spec.peft.converts_experts) return nullptr;
    const auto block = std::ranges::find_if(
        spec.blocks, [](const model::BlockSpec& one) { return one.experts() != nullptr; });
    return block == spec.blocks.end() ? nullptr : block->experts();
}

constexpr const char* router_end = "gate";

// The parameter that takes the place of a target, by the end of its name; empty: the target stays.
std::string parameter_of(const model::ExpertsSpec& experts, const std::string& target) {
    if (is_end_of(router_end, target)) return "gate.weight";
    if (is_end_of(experts.gate, target) || is_end_of(experts.up, target)) return "gate_up_proj";
    if (is_end_of(experts.down, target)) return "down_proj";
    return {};
}

std::string end_of(const std::string& name) { return name.substr(name.rfind('.') + 1); }

void name_all_linear(const model::ExpertsSpec& experts, LoraConfig& config,
                     const std::vector<model::LinearLayer>& layers) {
    std::set<std::string> ends{router_end, experts.gate, experts.up, experts.down};
    for (const model::LinearLayer& layer : layers) ends.insert(end_of(layer.name));
    config.target_modules.assign(ends.begin(), ends.end());
    config.targets_are_expression = false;
}

// The names of routers and matrices of experts that an expression may match in PEFT.
std::vector<std::string> names_of_experts(const model::ModelSpec& spec,
                                          const model::ExpertsSpec& experts) {
    std::vector<std::string> names;
    for (size_t block = 0; block < spec.blocks.size(); ++block) {
        if (!spec.blocks[block].experts()) continue;
        const std::string prefix = model::block_prefix(spec, block);
        names.push_back(concat(prefix, model::router_name(experts)));
        for (const std::string& matrix : {experts.gate, experts.up, experts.down})
            names.push_back(format_text("{}mlp.experts.{}", prefix, matrix));
    }
    return names;
}

// PEFT takes the last names of what an expression matches, in all blocks. Whole names keep the
// choice where it is narrower.
std::optional<Failure> name_matches(const model::ModelSpec& spec, const model::ExpertsSpec& experts,
                                    LoraConfig& config,
                                    const std::vector<model::LinearLayer>& layers) {
    const std::string text = config.target_modules.front();
    if (is_plain_name(text)) return std::nullopt;
    const auto named = names_that_match("lora_target_modules", text, Fit::whole, names_of(layers));
    if (!named) return named.failure();
    std::set<std::string> ends;
    std::vector<std::string> names;
    std::vector<std::string> others = names_of_experts(spec, experts);
    for (const model::LinearLayer& layer : layers) {
        if (!parameter_of(experts, layer.name).empty()) others.push_back(layer.name);
        if (!named.value().contains(layer.name)) continue;
        ends.insert(end_of(layer.name));
        names.push_back(layer.name);
    }
    const auto wrong = names_that_match("lora_target_modules", text, Fit::whole, others);
    if (!wrong) return wrong.failure();
    if (!wrong.value().empty())
        return refuse(format_text(
            "lora_target_modules = {}: matches {}, and PEFT takes its last name for the experts or "
            "routers of all blocks; leave it out of the expression, or give a list of ends of "
            "names: {},{},{} are the experts, {} is the router",
            text, *wrong.value().begin(), experts.gate, experts.up, experts.down, router_end));
    if (names.empty()) return std::nullopt;
    const bool are_all = std::ranges::all_of(layers, [&](const model::LinearLayer& layer) {
        return !ends.contains(end_of(layer.name)) || named.value().contains(layer.name);
    });
    if (are_all) names.assign(ends.begin(), ends.end());
    config.target_modules = std::move(names);
    config.targets_are_expression = false;
    return std::nullopt;
}

template <class Value>
void set_pattern(Patterns<Value>& patterns, const std::string& layers, Value value) {
    const auto found = std::ranges::find(patterns, layers, &std::pair<std::string, Value>::first);
    if (found == patterns.end())
        patterns.emplace_back(layers, value);
    else
        found->second = value;
}

std::optional<Failure> check_conversion(const LoraConfig& config, const std::string& asked,
                                        bool has_gate, bool has_up,
                                        const model::ExpertsSpec& experts) {
    const auto all = format_text("lora_target_modules = {}", asked);
    if (has_gate != has_up)
        return refuse(
            format_text("{}: {} and {} of the experts are one tensor, which has one "
                        "adapter; name both or none",
                        all, experts.gate, experts.up));
    if (config.lora_dropout > 0)
        return refuse(format_text(
            "{}, lora_dropout = {}: names experts or the router, as in PEFT, and their adapters "
            "have no dropout; give lora_dropout 0, or name layers of the attention alone, as "
            "q_proj,k_proj,v_proj,o_proj",
            all, config.lora_dropout));
    if (config.use_dora)
        return refuse(format_text(
            "{}, use_dora: names experts or the router, as in PEFT, and their adapters have no "
            "magnitudes; leave one of the two out, or name layers of the attention alone, as "
            "q_proj,k_proj,v_proj,o_proj",
            all));
    return std::nullopt;
}

}  // namespace

std::optional<Failure> settle_expert_targets(const model::ModelSpec& spec, LoraConfig& config,
                                             const std::vector<model::LinearLayer>& layers) {
    const model::ExpertsSpec* const experts = converted_experts(spec);
    if (experts == nullptr || config.target_modules.empty()) return std::nullopt;
    const std::string asked = join(config.target_modules, ",");
    if (asks_for_all_linear(config)) {
        if (end_of(experts->router) != router_end)
            return refuse(
                format_text("lora_target_modules = all-linear: names the router {} too, as in "
                            "PEFT, and routers of {} take no adapter; name the other layers",
                            experts->router, spec.architecture));
        if (config.layers_to_transform)
            return refuse(
                "layers_to_transform: all-linear names the experts too, in all blocks; name layers "
                "of the attention alone, as lora_target_modules q_proj,k_proj,v_proj,o_proj");
        name_all_linear(*experts, config, layers);
    } else if (config.targets_are_expression) {
        if (auto failure = name_matches(spec, *experts, config, layers)) return failure;
        if (config.targets_are_expression && !is_plain_name(config.target_modules.front()))
            return std::nullopt;
    }
    std::vector<std::string> modules;
    std::set<std::string> parameters;
    const std::vector<std::string> targets = std::exchange(config.target_modules, {});
    const auto names = [&](const std::string& end) {
        return std::ranges::find(targets, end) != targets.end();
    };
    for (const std::string& target : targets) {
        const std::string parameter = parameter_of(*experts, target);
        if (parameter.empty()) {
            modules.push_back(target);
        } else if (target.find('.') != std::string::npos) {
            return refuse(format_text(
                "lora_target_modules = {}: PEFT takes its last name for all blocks; name {} alone, "
                "or give lora_target_parameters {}",
                target, end_of(target), parameter));
        } else {
            parameters.insert(parameter);
        }
    }
    config.target_modules = std::move(modules);
    config.has_no_modules = config.target_modules.empty();
    if (parameters.empty()) return std::nullopt;
    if (auto failure =
            check_conversion(config, asked, names(experts->gate), names(experts->up), *experts))
        return failure;
    for (const std::string& parameter : parameters)
        if (std::ranges::find(config.target_parameters, parameter) ==
            config.target_parameters.end())
            config.target_parameters.push_back(parameter);
    if (names(experts->gate)) {
        set_pattern<int64_t>(config.rank_pattern, R"(.*\.gate_up_proj)", 2 * config.r);
        set_pattern<double>(config.alpha_pattern, R"(.*\.gate_up_proj)", 2 * config.lora_alpha);
    }
    return std::nullopt;
}

}  // namespace ringshard::peft
