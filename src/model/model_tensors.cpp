#include "ringshard/model/model_tensors.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "model_parts.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::model {

std::vector<shard::UnitLayout> modules_of(const ModelSpec& spec) {
    return ModelParts(spec).modules;
}

std::vector<std::string> tensor_names(const ModelSpec& spec) {
    std::vector<std::string> names;
    for (const shard::UnitLayout& module : modules_of(spec))
        for (const shard::ParameterGroup& group : module.groups())
            for (const shard::TensorSpec& tensor : group.tensors) names.push_back(tensor.name);
    return names;
}

std::string block_prefix(const ModelSpec& spec, size_t block) {
    return format_text("{}.{}.", spec.names.blocks, block);
}

std::string name_in_transformers(const std::string& tensor) {
    struct Renamed {
        std::string_view in_file;
        std::string_view module;
    };
    constexpr std::array<Renamed, 8> renamed{
        {{"backbone.", "model."},
         {"model.word_embeddings.", "model.embed_tokens."},
         {".block_sparse_moe.", ".mlp."},
         {".attention.dense.", ".self_attn.o_proj."},
         {".attention.", ".self_attn."},
         {".self_attn.f_a_proj.", ".self_attn.forget_gate.f_a_proj."},
         {".self_attn.f_b_proj.", ".self_attn.forget_gate.f_b_proj."},
         {".self_attn.f_proj.", ".self_attn.forget_gate.f_proj."}}};
    std::string name = tensor;
    for (const auto& [in_file, module] : renamed) {
        const bool is_of_model = name.starts_with("model.") || name.starts_with("backbone.");
        if (const size_t at = name.find(in_file); is_of_model && at != std::string::npos)
            name.replace(at, in_file.size(), module);
    }
    return name;
}

std::string module_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

std::vector<LinearLayer> linear_layers_of(const ModelSpec& spec) {
    const ModelParts parts(spec);
    constexpr std::string_view ending = ".weight";
    std::vector<LinearLayer> layers;
    const auto add = [&](const Projection& projection, const shard::UnitLayout& module,
                         size_t block) {
        for (const shard::TensorSpec& tensor :
             module.groups().at(projection.weight().group).tensors) {
            const std::string stored = tensor.name.substr(0, tensor.name.size() - ending.size());
            layers.push_back({module_of(name_in_transformers(tensor.name)), block,
                              stored.substr(module.prefix().size()), tensor.shape});
        }
    };
    for (size_t block = 0; block < parts.blocks.size(); ++block)
        for (const Projection* projection : parts.blocks[block].projections())
            add(*projection, parts.modules[ModuleIndex::block(block)], block);
    if (parts.layer_embeddings)
        add(parts.layer_embeddings->projection(), parts.modules[ModuleIndex(spec).layer_projection],
            parts.blocks.size());
    return layers;
}

std::vector<std::string> other_products_of(const ModelSpec& spec) {
    const ModelParts parts(spec);
    std::vector<std::string> modules;
    for (size_t block = 0; block < parts.blocks.size(); ++block) {
        const std::vector<const Projection*> layers = parts.blocks[block].projections();
        for (const WeightUse& use : parts.blocks[block].weights()) {
            const auto is_it = [&](const Projection* projection) {
                return projection->weight().group == use.weight.group;
            };
            if (std::ranges::any_of(layers, is_it)) continue;
            const shard::UnitLayout& module = parts.modules[ModuleIndex::block(block)];
            for (const shard::TensorSpec& tensor : module.groups().at(use.weight.group).tensors)
                modules.push_back(module_of(tensor.name));
        }
    }
    return modules;
}

std::string expert_adapter_prefix(const std::map<std::string, AdapterSpec>& layers,
                                  const std::string& parameter) {
    const bool is_inner = parameter == experts_gate_up && layers.contains(experts_down);
    return is_inner ? "mlp.experts.base_layer" : "mlp.experts";
}

std::string router_name(const ExpertsSpec& experts) {
    const bool has_own_name = experts.router_is_layer || experts.tensors != ExpertTensors::single;
    return has_own_name ? experts.router : "mlp.gate";
}

}  // namespace ringshard::model
