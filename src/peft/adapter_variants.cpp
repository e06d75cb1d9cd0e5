#include "ringshard/peft/adapter_variants.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "adapter_targets.hpp"
#include "module_names.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/model/model_tensors.hpp"

namespace ringshard::peft {

namespace {

constexpr std::string_view weight_ending = ".weight";
constexpr const char* bias_ending = ".bias";

// Returns the name of a tensor of an adapter among several.
std::string variant_name(const std::string& own, const std::string& adapter) {
    if (!own.ends_with(weight_ending)) return format_text("{}.{}", own, adapter);
    return format_text("{}.{}{}", own.substr(0, own.size() - weight_ending.size()), adapter,
                       weight_ending);
}

// `alone`: the model with the adapter alone.
std::optional<Failure> check_variant(const std::string& name, const LoraConfig& config,
                                     const model::ModelSpec& alone) {
    if (config.init.takes_from_weights())
        return Failure{
            ExitCode::settings,
            format_text("init_lora_weights of the adapter {}: it changes weights of the model, "
                        "which all adapters share; choose true or gaussian, or train it in a run "
                        "of its own",
                        name)};
    if (alone.layer_embeddings && alone.layer_embeddings->adapter)
        return Failure{
            ExitCode::settings,
            format_text("adapter {}: would adapt {}, which adapters that train together share; "
                        "leave it out of lora_target_modules, or train this adapter in a run of "
                        "its own",
                        name, alone.layer_embeddings->projection)};
    if (alone.embedding_adapter || !alone.trained_rows.empty())
        return Failure{
            ExitCode::settings,
            format_text("adapter {}: {}, and adapters that train together share the rows of the "
                        "embedding and of the output layer; train these whole, by "
                        "lora_modules_to_save, or this adapter in a run of its own",
                        name,
                        alone.embedding_adapter ? "would adapt " + alone.names.embedding
                                                : "has trainable_token_indices")};
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

// What an adapter trains of the model, which becomes its own: biases of linear layers, by block,
// and modules outside of the blocks.
struct OwnWeights {
    std::vector<std::set<std::string>> biases;
    model::OwnModules modules{};
};

// The tensors of modules that an adapter may have as its own.
std::map<std::string, bool model::OwnModules::*> tensors_of_modules(const model::ModelSpec& spec) {
    const model::ParameterNames& names = spec.names;
    std::map<std::string, bool model::OwnModules::*> tensors;
    tensors[concat(names.embedding, weight_ending)] = &model::OwnModules::embedding;
    tensors[concat(names.head, weight_ending)] = &model::OwnModules::head;
    tensors[concat(names.final_norm, weight_ending)] = &model::OwnModules::final_norm;
    if (spec.has_head_bias) tensors[concat(names.head, bias_ending)] = &model::OwnModules::head;
    if (spec.norm.has_bias)
        tensors[concat(names.final_norm, bias_ending)] = &model::OwnModules::final_norm;
    return tensors;
}

// `alone`: the model with the adapter alone. Fails (78) where it trains another weight of the
// model.
Expected<OwnWeights> own_weights(const model::ModelSpec& alone, const std::string& adapter) {
    const auto of_modules = tensors_of_modules(alone);
    std::map<std::string, std::pair<size_t, std::string>> of_biases;
    for (const model::LinearLayer& layer : model::linear_layers_of(alone))
        of_biases[format_text("{}.{}.{}{}", alone.names.blocks, layer.block, layer.in_block,
                              bias_ending)] = {layer.block, layer.in_block};
    OwnWeights own{std::vector<std::set<std::string>>(alone.blocks.size())};
    for (const std::string& tensor : all_weights(alone)) {
        if (alone.frozen.contains(tensor)) continue;
        if (const auto found = of_modules.find(tensor); found != of_modules.end()) {
            own.modules.*found->second = true;
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
        own.biases[bias->second.first].insert(bias->second.second);
    }
    for (const auto& [tensor, module] : of_modules)
        if (own.modules.*module && alone.frozen.contains(tensor))
            return Failure{ExitCode::settings,
                           format_text("bias of the adapter {}: {} would be trained in part; name "
                                       "the module in lora_modules_to_save and give bias "
                                       "lora_only, or train it in a run of its own",
                                       adapter, model::module_of(tensor))};
    return own;
}

}  // namespace

std::optional<Failure> add_adapter_variants(model::ModelSpec& spec,
                                            const std::vector<std::string>& names,
                                            std::vector<LoraConfig>& configs) {
    if (spec.num_experts() > 0 && spec.router_aux_loss_coef != 0)
        return Failure{
            ExitCode::settings,
            format_text("adapters, router_aux_loss_coef = {}: the loss that balances the experts "
                        "of {} is of the tokens of all adapters together; give "
                        "router_aux_loss_coef 0, or train each adapter in a run of its own",
                        spec.router_aux_loss_coef, spec.architecture)};
    const model::ModelSpec base = spec;
    for (size_t number = 0; number < names.size(); ++number) {
        model::ModelSpec alone = base;
        if (auto failure = add_adapters(alone, configs[number])) {
            failure->message = format_text("adapter {}: {}", names[number], failure->message);
            return failure;
        }
        if (auto failure = check_variant(names[number], configs[number], alone)) return failure;
        if (configs[number].bias != config::TrainedBiases::none &&
            !trains_biases(alone, configs[number]))
            return Failure{ExitCode::settings,
                           format_text("bias of the adapter {}: the model has no biases, or "
                                       "(lora_only) none in layers with an adapter; leave it out",
                                       names[number])};
        auto own = own_weights(alone, names[number]);
        if (!own) return own.failure();
        // One that trains the head or the embedding unties them, for all.
        spec.tied = spec.tied && alone.tied;
        spec.reads_head_from_embedding |= alone.reads_head_from_embedding;
        spec.own_modules.push_back(own.value().modules);
        spec.own_modules.back().head_adapter = alone.head_adapter;
        for (size_t block = 0; block < spec.blocks.size(); ++block)
            spec.blocks[block].variants.push_back({names[number],
                                                   std::move(alone.blocks[block].adapters),
                                                   std::move(own.value().biases[block])});
    }
    spec.frozen = all_weights(spec);
    if (std::ranges::none_of(spec.own_modules, &model::OwnModules::has_any))
        spec.own_modules.clear();
    return std::nullopt;
}

std::vector<std::string> variant_names(const model::ModelSpec& spec) {
    std::vector<std::string> names;
    for (const model::AdapterVariant& adapter : spec.blocks.front().variants)
        names.push_back(adapter.name);
    return names;
}

namespace {

// The tensors of the model that one of the adapters has as its own.
std::set<std::string> own_tensors(const model::ModelSpec& spec, size_t number) {
    std::set<std::string> tensors;
    for (size_t block = 0; block < spec.blocks.size(); ++block)
        for (const std::string& layer : spec.blocks[block].variants.at(number).biases)
            tensors.insert(bias_of(spec, block, layer));
    if (spec.own_modules.empty()) return tensors;
    for (const auto& [tensor, module] : tensors_of_modules(spec))
        if (spec.own_modules.at(number).*module) tensors.insert(tensor);
    return tensors;
}

}  // namespace

model::ModelSpec with_adapter_alone(const model::ModelSpec& spec, size_t number) {
    model::ModelSpec alone = spec;
    for (model::BlockSpec& block : alone.blocks) {
        block.adapters = block.variants.at(number).layers;
        block.variants.clear();
    }
    if (!spec.own_modules.empty()) alone.head_adapter = spec.own_modules.at(number).head_adapter;
    alone.own_modules.clear();
    let_biases_train(alone, own_tensors(spec, number));
    return alone;
}

std::string own_name(const std::string& tensor, const std::string& adapter) {
    const std::string ending = format_text(".{}", adapter);
    const std::string of_weight = concat(ending, weight_ending);
    if (tensor.ends_with(of_weight))
        return concat(tensor.substr(0, tensor.size() - of_weight.size()), weight_ending);
    return tensor.ends_with(ending) ? tensor.substr(0, tensor.size() - ending.size()) : tensor;
}

shard::ReadWeight with_adapter_variants(const shard::ReadWeight& model,
                                        const model::ModelSpec& spec,
                                        const std::vector<VariantOrigin>& origins) {
    struct Own {
        shard::ReadWeight read;
        std::string name;
    };
    const auto of_tensor = std::make_shared<std::map<std::string, Own>>();
    const std::vector<std::string> names = variant_names(spec);
    for (size_t number = 0; number < names.size(); ++number) {
        const model::ModelSpec alone = with_adapter_alone(spec, number);
        const auto& [start, stored] = origins[number];
        const shard::ReadWeight read =
            with_adapters(model, alone, start, stored ? &*stored : nullptr);
        std::set<std::string> tensors = adapter_tensors(alone);
        tensors.merge(own_tensors(spec, number));
        for (const std::string& own : tensors)
            (*of_tensor)[variant_name(own, names[number])] = {read, own};
    }
    return [model, of_tensor](const std::string& tensor, int64_t first, std::span<float> into) {
        const auto found = of_tensor->find(tensor);
        return found == of_tensor->end() ? model(tensor, first, into)
                                         : found->second.read(found->second.name, first, into);
    };
}

}  // namespace ringshard::peft
