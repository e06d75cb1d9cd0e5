#include "ringshard/model/joint_adapters.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "adapter_targets.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::model {

namespace {

constexpr const char* magnitude_ending = ".lora_magnitude_vector";
constexpr const char* bias_ending = ".bias";

// Returns the name of a tensor of an adapter among several.
std::string joint_name(const std::string& own, const std::string& adapter) {
    if (own.ends_with(magnitude_ending) || own.ends_with(bias_ending))
        return format_text("{}.{}", own, adapter);
    const size_t weight = own.rfind(".weight");
    return format_text("{}.{}{}", own.substr(0, weight), adapter, own.substr(weight));
}

std::optional<Failure> check_joint(const std::string& name, const LoraConfig& config) {
    const auto refuse = [&](const char* setting, const char* why, const char* cure = "") {
        return Failure{ExitCode::settings,
                       format_text("{} of the adapter {}: {}; {}train it in a run of its own",
                                   setting, name, why, cure)};
    };
    if (!config.modules_to_save.empty())
        return refuse("lora_modules_to_save",
                      "it trains weights of the model, which all adapters share");
    if (config.bias == config::TrainedBiases::all)
        return refuse("bias",
                      "biases of layers without an adapter are weights of the model, which all "
                      "adapters share",
                      "choose lora_only, or ");
    if (config.init.takes_from_weights())
        return refuse("init_lora_weights",
                      "it changes weights of the model, which all adapters share",
                      "choose true or gaussian, or ");
    if (!config.target_parameters.empty())
        return refuse("lora_target_parameters",
                      "adapters that train together are for linear layers");
    return std::nullopt;
}

std::string bias_of(const ModelSpec& spec, size_t block, const std::string& layer) {
    return concat(block_prefix(spec, block), layer, bias_ending);
}

// The weights of the model, all of which are frozen.
std::set<std::string> all_weights(ModelSpec spec, LoraConfig config) {
    config.bias = config::TrainedBiases::none;
    RINGSHARD_CHECK(!add_adapters(spec, config), "the same adapters have just been added");
    return std::move(spec.frozen);
}

}  // namespace

std::optional<Failure> add_joint_adapters(ModelSpec& spec, const std::vector<std::string>& names,
                                          std::vector<LoraConfig>& configs) {
    if (spec.num_experts() > 0 && spec.router_aux_loss_coef != 0)
        return Failure{
            ExitCode::settings,
            format_text("adapters, router_aux_loss_coef = {}: the loss that balances the experts "
                        "of {} is of the tokens of all adapters together; give "
                        "router_aux_loss_coef 0, or train each adapter in a run of its own",
                        spec.router_aux_loss_coef, spec.architecture)};
    const ModelSpec base = spec;
    for (size_t number = 0; number < names.size(); ++number) {
        if (auto failure = check_joint(names[number], configs[number])) return failure;
        ModelSpec alone = base;
        const LoraConfig asked = configs[number];  // adding settles its names
        if (auto failure = add_adapters(alone, configs[number])) {
            failure->message = format_text("adapter {}: {}", names[number], failure->message);
            return failure;
        }
        if (configs[number].bias != config::TrainedBiases::none &&
            !trains_biases(alone, configs[number]))
            return Failure{ExitCode::settings,
                           format_text("bias of the adapter {}: no layer that has an adapter has a "
                                       "bias; leave it out",
                                       names[number])};
        spec.frozen = all_weights(base, asked);
        for (size_t block = 0; block < spec.blocks.size(); ++block) {
            JointAdapter adapter{names[number], std::move(alone.blocks[block].adapters)};
            for (auto& [layer, own] : adapter.layers) {
                const std::string bias = bias_of(spec, block, layer);
                own.has_bias = spec.frozen.contains(bias) && !alone.frozen.contains(bias);
            }
            spec.blocks[block].joint.push_back(std::move(adapter));
        }
    }
    return std::nullopt;
}

std::vector<std::string> joint_adapters(const ModelSpec& spec) {
    std::vector<std::string> names;
    for (const JointAdapter& adapter : spec.blocks.front().joint) names.push_back(adapter.name);
    return names;
}

ModelSpec with_adapter_alone(const ModelSpec& spec, size_t number) {
    ModelSpec alone = spec;
    std::set<std::string> biases;
    for (size_t number_of_block = 0; number_of_block < alone.blocks.size(); ++number_of_block) {
        BlockSpec& block = alone.blocks[number_of_block];
        block.adapters = block.joint.at(number).layers;
        block.joint.clear();
        for (auto& [layer, adapter] : block.adapters)
            if (std::exchange(adapter.has_bias, false))
                biases.insert(bias_of(spec, number_of_block, layer));
    }
    let_biases_train(alone, biases);
    return alone;
}

std::string own_name(const std::string& tensor, const std::string& adapter) {
    for (const char* const matrix : {".lora_A.", ".lora_B."}) {
        const std::string ending = format_text("{}{}.weight", matrix, adapter);
        if (tensor.ends_with(ending))
            return format_text("{}{}weight", tensor.substr(0, tensor.size() - ending.size()),
                               matrix);
    }
    const std::string ending = format_text(".{}", adapter);
    for (const char* const vector : {magnitude_ending, bias_ending})
        if (tensor.ends_with(concat(vector, ending)))
            return tensor.substr(0, tensor.size() - ending.size());
    return tensor;
}

shard::ReadWeight with_joint_adapters(const shard::ReadWeight& model, const ModelSpec& spec,
                                      const std::vector<JointOrigin>& origins) {
    struct Own {
        shard::ReadWeight read;
        std::string name;
    };
    const auto of_tensor = std::make_shared<std::map<std::string, Own>>();
    const std::vector<std::string> names = joint_adapters(spec);
    for (size_t number = 0; number < names.size(); ++number) {
        const ModelSpec alone = with_adapter_alone(spec, number);
        const auto& [start, stored] = origins[number];
        const shard::ReadWeight read =
            with_adapters(model, alone, start, stored ? &*stored : nullptr);
        std::set<std::string> tensors = adapter_tensors(alone);
        for (size_t block = 0; block < spec.blocks.size(); ++block)
            for (const auto& [layer, adapter] : spec.blocks[block].joint[number].layers)
                if (adapter.has_bias) tensors.insert(bias_of(spec, block, layer));
        for (const std::string& own : tensors)
            (*of_tensor)[joint_name(own, names[number])] = {read, own};
    }
    return [model, of_tensor](const std::string& tensor, int64_t first, std::span<float> into) {
        const auto found = of_tensor->find(tensor);
        return found == of_tensor->end() ? model(tensor, first, into)
                                         : found->second.read(found->second.name, first, into);
    };
}

}  // namespace ringshard::model
