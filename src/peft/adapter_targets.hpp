#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ringshard/model/model_tensors.hpp"
#include "ringshard/peft/adapters.hpp"

// Chooses the linear layers that get an adapter, by PEFT's rules.
namespace ringshard::peft {

inline Failure refuse(const std::string& why) { return {ExitCode::settings, why}; }

bool asks_for_all_linear(const LoraConfig& config);

// Replaces "all-linear" and missing targets by names, as PEFT does. For a model without a default
// of PEFT they are q_proj and v_proj, or no name beside target_parameters. A single name
// is the end of a name, not an expression.
std::optional<Failure> settle_targets(const model::ModelSpec& spec, LoraConfig& config,
                                      const std::vector<model::LinearLayer>& layers);

// Fails (78) where a name matches no layer.
Expected<std::vector<const model::LinearLayer*>> find_targets(
    const LoraConfig& config, const std::vector<model::LinearLayer>& layers);

// Takes biases out of the frozen weights. Those of layers that are one product become parameters by
// themselves where some of them stay frozen.
void let_biases_train(model::ModelSpec& spec, const std::set<std::string>& biases);

std::vector<std::string> names_of(const std::vector<model::LinearLayer>& layers);

// Returns the layers that exclude_modules names.
Expected<std::set<std::string>> find_excluded(const LoraConfig& config,
                                              const std::vector<std::string>& layers);

// Fails (78) where a setting names a router or an expert. all-linear stands for names of linear
// layers, which may be those of layers in experts too.
std::optional<Failure> refuse_experts(const LoraConfig& config, const model::ModelSpec& spec,
                                      bool is_all_linear);

}  // namespace ringshard::peft
