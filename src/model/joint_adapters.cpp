#include "ringshard/model/joint_adapters.hpp"

#include <algorithm>
#include <memory>

#include "ringshard/base/text.hpp"

namespace ringshard::model {

namespace {

constexpr const char* magnitude_ending = ".lora_magnitude_vector";

// Returns the name of a tensor of an adapter among several.
std::string joint_name(const std::string& own, const std::string& adapter) {
    if (own.ends_with(magnitude_ending)) return format_text("{}.{}", own, adapter);
    const size_t weight = own.rfind(".weight");
    return format_text("{}.{}{}", own.substr(0, weight), adapter, own.substr(weight));
}

std::optional<Failure> check_joint(const std::string& name, const LoraConfig& config) {
    const auto refuse = [&](const char* setting, const char* why) {
        return Failure{ExitCode::settings,
                       format_text("{} of the adapter {}: {}; train it in a run of its own",
                                   setting, name, why)};
    };
    if (!config.modules_to_save.empty())
        return refuse("lora_modules_to_save",
                      "it trains weights of the model, which all adapters share");
    if (config.bias != config::TrainedBiases::none)
        return refuse("bias", "biases are weights of the model, which all adapters share");
    if (!config.target_parameters.empty())
        return refuse("lora_target_parameters",
                      "adapters that train together are for linear layers");
    return std::nullopt;
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
        if (auto failure = add_adapters(alone, configs[number])) {
            failure->message = format_text("adapter {}: {}", names[number], failure->message);
            return failure;
        }
        for (size_t block = 0; block < spec.blocks.size(); ++block)
            spec.blocks[block].joint.push_back(
                {names[number], std::move(alone.blocks[block].adapters)});
        spec.frozen = alone.frozen;  // all weights of the model
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
    for (BlockSpec& block : alone.blocks) {
        block.adapters = block.joint.at(number).layers;
        block.joint.clear();
    }
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
    if (tensor.ends_with(concat(magnitude_ending, ending)))
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
        for (const std::string& own : adapter_tensors(alone))
            (*of_tensor)[joint_name(own, names[number])] = {read, own};
    }
    return [model, of_tensor](const std::string& tensor, int64_t first, std::span<float> into) {
        const auto found = of_tensor->find(tensor);
        return found == of_tensor->end() ? model(tensor, first, into)
                                         : found->second.read(found->second.name, first, into);
    };
}

}  // namespace ringshard::model
