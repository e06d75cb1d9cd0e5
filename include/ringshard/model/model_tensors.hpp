#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ringshard/model/model_spec.hpp"
#include "ringshard/shard/flat_unit.hpp"

// The tensors of a model and their names, for those who choose, store or adapt some of them.
namespace ringshard::model {

// Returns the modules with the groups of their tensors, as ModuleIndex counts them.
std::vector<shard::UnitLayout> modules_of(const ModelSpec& spec);
std::vector<std::string> tensor_names(const ModelSpec& spec);

// Returns the prefix of the names of a block's tensors.
std::string block_prefix(const ModelSpec& spec, size_t block);

// Returns the name that a tensor of the files has in transformers' model, and so in PEFT: some
// files name modules otherwise.
std::string name_in_transformers(const std::string& tensor);

// Returns the module that a tensor belongs to.
std::string module_of(const std::string& tensor);

// A linear layer of a block, or the projection to the embeddings of layers.
struct LinearLayer {
    std::string name;      // in transformers, "model.layers.0.mlp.down_proj"
    size_t block;          // the number of blocks, if it is of none
    std::string in_block;  // in files, "mlp.down_proj"
    std::vector<int64_t> shape;
};
std::vector<LinearLayer> linear_layers_of(const ModelSpec& spec);
// Returns the modules of all other matrix products of blocks: routers and experts.
std::vector<std::string> other_products_of(const ModelSpec& spec);

// PEFT's names of the matrices of all experts of a block, as BlockSpec::adapters has them.
inline constexpr const char* experts_gate_up = "mlp.experts.gate_up_proj";
inline constexpr const char* experts_down = "mlp.experts.down_proj";
// And that of the router in front of them, which files may call otherwise.
std::string router_name(const ExpertsSpec& experts);
// The name in front of A and B. PEFT wraps the module once for each matrix, the last one outermost.
std::string expert_adapter_prefix(const std::map<std::string, AdapterSpec>& layers,
                                  const std::string& parameter);

}  // namespace ringshard::model
