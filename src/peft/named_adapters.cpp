#include "ringshard/peft/named_adapters.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "adapter_targets.hpp"
#include "adapter_values.hpp"
#include "module_names.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/model/model_tensors.hpp"

namespace ringshard::peft {

namespace {

constexpr std::string_view weight_ending = ".weight";
constexpr const char* bias_ending = ".bias";

// What no one of several adapters can do. `alone`: the model with the adapter alone.
std::optional<Failure> check_one_of_several(const std::string& name, const LoraConfig& config,
                                            const model::ModelSpec& alone) {
    const std::string& embedding = alone.names.embedding;
    const bool adapts_embedding = alone.adapters.front().layers.contains(embedding);
    if (config.init.takes_from_weights())
        return Failure{
            ExitCode::settings,
            format_text("init_lora_weights of the adapter {}: it changes weights of the model, "
                        "which all adapters share; choose true or gaussian, or train it in a run "
                        "of its own",
                        name)};
    if (adapts_embedding || !alone.trained_rows.empty())
        return Failure{
            ExitCode::settings,
            format_text(
                "adapter {}: {}, and adapters that train together share the rows of the "
                "embedding and of the output layer; train these whole, by "
                "lora_modules_to_save, or this adapter in a run of its own",
                name,
                adapts_embedding ? "would adapt " + embedding : "has trainable_token_indices")};
    if (config.bias != config::TrainedBiases::none && !trains_biases(alone, config))
        return Failure{ExitCode::settings,
                       format_text("bias of the adapter {}: the model has no biases, or "
                                   "(lora_only) none in layers with an adapter; leave it out",
                                   name)};
    return std::nullopt;
}

std::string bias_of(const model::ModelSpec& spec, size_t block, const std::string& layer) {
    return concat(model::block_prefix(spec, block), layer, bias_ending);
}

// The tensors of the model, without those of adapters.
std::set<std::string> all_weights(const model::ModelSpec& spec) {
    std::set<std::string> names;
    for (const shard::UnitLayout& module : model::modules_of(spec))
        for (const shard::ParameterGroup& group : module.groups())
            if (!group.is_made_by_run)
                for (const shard::TensorSpec& tensor : group.tensors) names.insert(tensor.name);
    return names;
}

// The tensors of modules that an adapter may have as its own, each with its module.
std::map<std::string, std::string> tensors_of_modules(const model::ModelSpec& spec) {
    const model::ParameterNames& names = spec.names;
    std::map<std::string, std::string> tensors;
    for (const std::string& module : {names.embedding, names.head, names.final_norm})
        tensors[concat(module, weight_ending)] = module;
    if (spec.has_head_bias) tensors[concat(names.head, bias_ending)] = names.head;
    if (spec.norm.has_bias) tensors[concat(names.final_norm, bias_ending)] = names.final_norm;
    return tensors;
}

// Lets the adapter of `alone` have its own biases and modules in place of those of the model that
// it trains. Fails (78) where it trains another weight of the model.
std::optional<Failure> own_trained(model::ModelSpec& alone, const std::string& adapter) {
    const auto of_modules = tensors_of_modules(alone);
    std::map<std::string, std::pair<size_t, std::string>> of_biases;
    for (const model::LinearLayer& layer : model::linear_layers_of(alone))
        of_biases[format_text("{}.{}.{}{}", alone.names.blocks, layer.block, layer.in_block,
                              bias_ending)] = {layer.block, layer.in_block};
    std::set<std::string>& own = alone.adapters.front().own;
    for (const std::string& tensor : all_weights(alone)) {
        if (alone.frozen.contains(tensor)) continue;
        if (const auto found = of_modules.find(tensor); found != of_modules.end()) {
            own.insert(found->second);
            continue;
        }
        const auto bias = of_biases.find(tensor);
        if (bias == of_biases.end())
            return Failure{
                ExitCode::settings,
                format_text(
                    "adapter {}: would train {}, which adapters that train together share; "
                    "they may have their own embedding, output layer, final norm and biases "
                    "of linear layers. Name no other module in lora_modules_to_save, give "
                    "bias lora_only in place of all, or train it in a run of its own",
                    adapter, tensor)};
        const auto& [block, layer] = bias->second;
        alone.blocks.at(block).adapters.front().own.insert(layer);
    }
    for (const auto& [tensor, module] : of_modules)
        if (own.contains(module) && alone.frozen.contains(tensor))
            return Failure{ExitCode::settings,
                           format_text("bias of the adapter {}: {} would be trained in part; name "
                                       "the module in lora_modules_to_save and give bias "
                                       "lora_only, or train it in a run of its own",
                                       adapter, module)};
    return std::nullopt;
}

// Gives `spec` the learner of a model that has it alone.
void take_learner(model::ModelSpec& spec, const std::string& name, model::ModelSpec alone) {
    const size_t number = spec.add_learner(name);
    const auto take = [&](std::vector<model::NamedAdapter>& into,
                          std::vector<model::NamedAdapter>& from) {
        into.at(number) = std::move(from.front());
        into.at(number).name = name;
    };
    take(spec.adapters, alone.adapters);
    for (size_t block = 0; block < spec.blocks.size(); ++block)
        take(spec.blocks[block].adapters, alone.blocks[block].adapters);
    // One that trains the head or the embedding unties them, for all.
    spec.tied = spec.tied && alone.tied;
    spec.reads_head_from_embedding |= alone.reads_head_from_embedding;
}

std::optional<Failure> add_several(model::ModelSpec& spec, std::vector<NamedConfig>& adapters) {
    if (spec.num_experts() > 0 && spec.router_aux_loss_coef != 0)
        return Failure{
            ExitCode::settings,
            format_text("adapters, router_aux_loss_coef = {}: the loss that balances the experts "
                        "of {} is of the tokens of all adapters together; give "
                        "router_aux_loss_coef 0, or train each adapter in a run of its own",
                        spec.router_aux_loss_coef, spec.architecture)};
    const model::ModelSpec base = spec;
    for (auto& [name, config] : adapters) {
        model::ModelSpec alone = base;
        if (auto failure = add_adapter(alone, config)) {
            failure->message = format_text("adapter {}: {}", name, failure->message);
            return failure;
        }
        if (auto failure = check_one_of_several(name, config, alone)) return failure;
        if (auto failure = own_trained(alone, name)) return failure;
        take_learner(spec, name, std::move(alone));
    }
    spec.frozen = all_weights(spec);
    return std::nullopt;
}

}  // namespace

std::optional<Failure> add_adapters(model::ModelSpec& spec, std::vector<NamedConfig>& adapters) {
    const bool is_only = adapters.size() == 1 && adapters.front().name.empty();
    return is_only ? add_adapter(spec, adapters.front().config) : add_several(spec, adapters);
}

namespace {

// The tensors of the model that one of the adapters has as its own.
std::set<std::string> own_tensors(const model::ModelSpec& spec, size_t number) {
    std::set<std::string> tensors;
    for (size_t block = 0; block < spec.blocks.size(); ++block)
        for (const std::string& layer : spec.blocks[block].adapters.at(number).own)
            tensors.insert(bias_of(spec, block, layer));
    for (const auto& [tensor, module] : tensors_of_modules(spec))
        if (spec.adapters.at(number).own.contains(module)) tensors.insert(tensor);
    return tensors;
}

}  // namespace

model::ModelSpec with_adapter_alone(const model::ModelSpec& spec, size_t number) {
    if (spec.adapters.at(number).name.empty()) return spec;
    model::ModelSpec alone = spec;
    alone.remove_learners();
    alone.add_learner("");
    alone.adapters.front().layers = spec.adapters[number].layers;
    for (size_t block = 0; block < spec.blocks.size(); ++block)
        alone.blocks[block].adapters.front().layers = spec.blocks[block].adapters[number].layers;
    let_biases_train(alone, own_tensors(spec, number));
    return alone;
}

std::string own_name(const std::string& tensor, const std::string& adapter) {
    if (adapter.empty()) return tensor;
    const std::string ending = format_text(".{}", adapter);
    const std::string of_weight = concat(ending, weight_ending);
    if (tensor.ends_with(of_weight))
        return concat(tensor.substr(0, tensor.size() - of_weight.size()), weight_ending);
    return tensor.ends_with(ending) ? tensor.substr(0, tensor.size() - ending.size()) : tensor;
}

std::string name_among(const std::string& own, const std::string& adapter) {
    if (adapter.empty()) return own;
    if (!own.ends_with(weight_ending)) return format_text("{}.{}", own, adapter);
    return format_text("{}.{}{}", own.substr(0, own.size() - weight_ending.size()), adapter,
                       weight_ending);
}

shard::ReadWeight with_adapters(const shard::ReadWeight& model, const model::ModelSpec& spec,
                                const std::vector<AdapterOrigin>& origins) {
    struct Own {
        shard::ReadWeight read;
        std::string name;
    };
    const auto of_tensor = std::make_shared<std::map<std::string, Own>>();
    for (size_t number = 0; number < origins.size(); ++number) {
        const model::ModelSpec alone = with_adapter_alone(spec, number);
        const shard::ReadWeight read = read_adapter(model, alone, origins[number]);
        for (const auto& [own, shape] : trained_shapes(alone))
            (*of_tensor)[name_among(own, spec.adapters[number].name)] = {read, own};
    }
    return [model, of_tensor](const std::string& tensor, int64_t first, std::span<float> into) {
        const auto found = of_tensor->find(tensor);
        return found == of_tensor->end() ? model(tensor, first, into)
                                         : found->second.read(found->second.name, first, into);
    };
}

}  // namespace ringshard::peft
