#pragma once

#include <string>
#include <vector>

#include "ringshard/peft/adapters.hpp"

// Several adapters that train together beside one frozen model, each on rows of its own.
namespace ringshard::peft {

// The text of a checkpoint's state that holds adapter_config.json of each adapter: JSON, by name.
inline constexpr const char* adapter_variants_text = "joint_adapters";

// Adds these adapters to the spec, each as add_adapters() adds it to a model of its own. `names`
// are the names of the adapters, in their order. Fails (78) as that does, and where an adapter
// trains or changes weights of the model, which are those of all.
std::optional<Failure> add_adapter_variants(model::ModelSpec& spec,
                                            const std::vector<std::string>& names,
                                            std::vector<LoraConfig>& configs);

// The names of the adapters that train together; none where a model has one adapter, or none.
std::vector<std::string> variant_names(const model::ModelSpec& spec);

// Returns the spec with one of the adapters alone, as a run of its own has it.
model::ModelSpec with_adapter_alone(const model::ModelSpec& spec, size_t number);

// The name that a tensor of an adapter has in a run of its own: without the adapter's name.
std::string own_name(const std::string& tensor, const std::string& adapter);

// How an adapter begins: with the numbers of a file, or anew.
struct VariantOrigin {
    AdapterStart start{};
    std::optional<hub::StoredModel> stored{};
};

// Returns a reader of all weights: those of each adapter as with_adapters() has them, the others
// from `model`. The arguments must outlive it.
shard::ReadWeight with_adapter_variants(const shard::ReadWeight& model,
                                        const model::ModelSpec& spec,
                                        const std::vector<VariantOrigin>& origins);

}  // namespace ringshard::peft
