#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model_parts.hpp"
#include "ringshard/model/adapters.hpp"

// Chooses the linear layers that get an adapter, by PEFT's rules.
namespace ringshard::model {

inline Failure refuse(const std::string& why) { return {ExitCode::settings, why}; }

// A linear layer of a block.
struct LinearLayer {
    std::string name;  // in transformers, "model.layers.0.mlp.down_proj"
    size_t block;
    std::string in_block;  // in files, "mlp.down_proj"
    std::vector<int64_t> shape;
};

std::vector<LinearLayer> linear_layers_of(const ModelParts& parts);

bool asks_for_all_linear(const LoraConfig& config);

// Replaces "all-linear" and missing targets by names, as PEFT does. For a model without a default
// of PEFT they are q_proj and v_proj, or no name beside target_parameters. A single name
// is the end of a name, not an expression.
std::optional<Failure> settle_targets(const ModelSpec& spec, LoraConfig& config,
                                      const std::vector<LinearLayer>& layers);

// Fails (78) where a name matches no layer.
Expected<std::vector<const LinearLayer*>> find_targets(const LoraConfig& config,
                                                       const std::vector<LinearLayer>& layers);

// Takes biases out of the frozen weights. Those of layers that are one product become parameters by
// themselves where some of them stay frozen.
void let_biases_train(ModelSpec& spec, const std::set<std::string>& biases);

std::vector<std::string> names_of(const std::vector<LinearLayer>& layers);

// Returns the layers that exclude_modules names.
Expected<std::set<std::string>> find_excluded(const LoraConfig& config,
                                              const std::vector<std::string>& layers);

// Fails (78) where a setting names a router or an expert. all-linear stands for names of linear
// layers, which may be those of layers in experts too.
std::optional<Failure> refuse_experts(const LoraConfig& config, const ModelParts& parts,
                                      bool is_all_linear);

}  // namespace ringshard::model
