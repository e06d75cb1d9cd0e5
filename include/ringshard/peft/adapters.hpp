#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/config/adapter_init.hpp"
#include "ringshard/hub/safetensors.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/shard/tensor_sums.hpp"
#include "ringshard/shard/zero.hpp"

// Low-rank adapters (LoRA) beside a frozen model, as PEFT has them: names, settings, first values.
namespace ringshard::peft {

// Values by the end of a layer's name, an expression; in the order of the file.
template <class Value>
using Patterns = std::vector<std::pair<std::string, Value>>;

// The fields of adapter_config.json that are served, under their names there.
struct LoraConfig {
    int64_t r = 8;
    double lora_alpha = 8;
    double lora_dropout = 0;
    // Names of layers, or the ends of their names; or one regular expression of the whole name.
    std::vector<std::string> target_modules{};
    bool targets_are_expression = false;
    // Likewise, of layers that get no adapter.
    std::vector<std::string> exclude_modules{};
    bool exclusion_is_expression = false;
    // Ends of names of parameters: matrices of linear layers, or those of all experts of a block.
    std::vector<std::string> target_parameters{};
    bool has_no_modules = false;  // target_modules is an empty list beside them
    std::vector<std::string> modules_to_save{};
    bool use_rslora = false;
    bool use_dora = false;
    bool lora_bias = false;
    config::AdapterInit init{};  // init_lora_weights
    config::TrainedBiases bias = config::TrainedBiases::none;
    Patterns<int64_t> rank_pattern{};
    Patterns<double> alpha_pattern{};
    std::optional<std::vector<int64_t>> layers_to_transform{};
    std::vector<std::string> layers_pattern{};
    config::TrainedTokens trained_tokens{};  // trainable_token_indices
    std::string task_type = "CAUSAL_LM";
    bool fan_in_fan_out = false;  // as the model's matrices lie: PEFT sets it by itself
};

inline constexpr const char* adapter_config_name = "adapter_config.json";

// The text of a checkpoint's state that holds adapter_config.json.
inline constexpr const char* adapter_text = "adapter";

// Reads adapter_config.json. Fails if a field asks for an unsupported feature. `file`: for
// messages.
Expected<LoraConfig> parse_adapter_config(const std::string& text, const std::string& file);
// Returns adapter_config.json as PEFT writes it. `base`: the model's name or folder.
std::string print_adapter_config(const LoraConfig& config, const std::string& base);

// Returns the configuration of the adapter that is written in place of one that began as a part of
// the weights (InitialAdapter): twice the rank, and the same scale.
std::string widened_adapter_config(const std::string& text);

// Returns true if a text is a name or the end of one, and no expression.
bool is_plain_name(const std::string& text);

// Gives the model a learner without a name, which adapts the linear layers that the configuration
// names, and freezes all weights of the model but those of modules_to_save and `bias`. Lists
// "all-linear" and missing targets are replaced by names. Fails (78) where a name matches no layer.
std::optional<Failure> add_adapter(model::ModelSpec& spec, LoraConfig& config);
// Fails (78) where a pattern, a block or an excluded name of the configuration concerns no layer:
// PEFT passes over it. `spec`: with the adapter of the configuration alone.
std::optional<Failure> find_idle_choice(const model::ModelSpec& spec, const LoraConfig& config);
bool has_adapters(const std::vector<shard::FlatUnit>& units);
// Returns the names of the tensors of all adapters.
std::set<std::string> adapter_tensors(const model::ModelSpec& spec);

// Turns the files beside a model's weights into those beside an adapter: with adapter_config.json,
// and without config.json, which is of the base. An adapter that began as a part of the weights is
// written as one of twice the rank beside the whole weights.
void turn_into_adapter_files(std::map<std::string, std::string>& files,
                             const std::string& adapter_config);

// Returns true if the configuration makes biases of the model train, beside modules_to_save.
bool trains_biases(const model::ModelSpec& spec, const LoraConfig& config);

// The name that a tensor of an adapter, or a module of modules_to_save, has in an adapter's file.
std::string name_in_adapter(const std::string& tensor);
// The same of every trained tensor: the bias of a layer that has an adapter is of the layer below
// it. `adapters`: the names of the tensors of all adapters.
std::string name_in_adapter(const std::string& tensor, const std::set<std::string>& adapters);

// Fails (66) unless a folder has the two files of an adapter; says what to do where PEFT wrote it
// in another way.
std::optional<Failure> check_adapter_folder(const std::filesystem::path& folder);

// Fails unless the files of an adapter hold its tensors, in their shapes, and no others.
std::optional<Failure> check_adapter(const hub::StoredModel& stored, const model::ModelSpec& spec,
                                     const std::string& folder);

// The first values of adapters that begin anew.
struct AdapterStart {
    uint64_t seed = 0;
    config::AdapterInit init{};
};

// Sets the magnitudes of all adapters to the norms of the rows of their weights, in the compute
// type: DoRA's first values. Collective over the zero group.
void set_magnitudes(const model::ModelSpec& spec, shard::Zero& zero);

}  // namespace ringshard::peft
