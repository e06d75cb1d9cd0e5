#pragma once

#include <string>
#include <vector>

#include "ringshard/peft/adapters.hpp"

// The adapters of a run: one without a name, or several that train together beside one frozen
// model, each on rows of its own.
namespace ringshard::peft {

// The text of a checkpoint's state that holds adapter_config.json of each of several adapters:
// JSON, by name. That of the only adapter is adapter_text.
inline constexpr const char* named_adapters_text = "joint_adapters";

struct NamedConfig {
    std::string name;  // empty: of the only adapter
    LoraConfig config;
};

// Gives the model these adapters: the only one as add_adapter() does, each of several as that adds
// it to a model of its own. Fails (78) as that does, and where one of several trains or changes
// weights of the model, which are those of all.
std::optional<Failure> add_adapters(model::ModelSpec& spec, std::vector<NamedConfig>& adapters);

// Returns the spec with one of the adapters alone, as a run of its own has it.
model::ModelSpec with_adapter_alone(const model::ModelSpec& spec, size_t number);

// The name that a tensor of an adapter has in a run of its own: without the adapter's name.
std::string own_name(const std::string& tensor, const std::string& adapter);
// The name that it has in a model with this adapter, which has no name if it is the only one.
std::string name_among(const std::string& own, const std::string& adapter);

// How an adapter begins: with the numbers of a file, or anew.
struct AdapterOrigin {
    AdapterStart start{};
    std::optional<hub::StoredModel> stored{};
};

// Returns a reader of all weights: those of each adapter, and of modules_to_save, from its file, or
// with the first values of adapters that begin anew; the others from `model`. A begins uniform
// within 1 / sqrt(in) (PEFT's kaiming_uniform with a = sqrt(5)) or normal with the deviation
// 1 / rank, a function of the seed, the tensor's name and the element; B is 0; set_magnitudes() is
// for the rest. `origins` must outlive the reader.
shard::ReadWeight with_adapters(const shard::ReadWeight& model, const model::ModelSpec& spec,
                                const std::vector<AdapterOrigin>& origins);

}  // namespace ringshard::peft
