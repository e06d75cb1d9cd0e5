#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/config/adapter_init.hpp"

namespace ringshard::config {

// Low-rank adapters, under the names of TRL's ModelConfig.
struct AdapterSettings {
    bool use_peft = false;
    int64_t lora_r = 16;
    double lora_alpha = 32;
    double lora_dropout = 0.05;
    std::vector<std::string> lora_target_modules;  // empty: PEFT's default of the architecture
    std::vector<std::string> lora_target_parameters;
    std::vector<std::string> lora_modules_to_save;
    std::vector<std::string> exclude_modules;
    std::vector<int64_t> layers_to_transform;  // empty: all blocks
    std::vector<std::string> layers_pattern;   // names of the list of blocks
    std::string rank_pattern;                  // JSON, for read_adapter_patterns()
    std::string alpha_pattern;                 // the same
    std::string trainable_token_indices;       // JSON, for read_trained_tokens()
    bool use_rslora = false;
    bool use_dora = false;
    bool lora_bias = false;
    std::string init_lora_weights = "true";  // for read_adapter_init()
    TrainedBiases bias = TrainedBiases::none;
    std::string lora_task_type = "CAUSAL_LM";
    std::string adapter_name_or_path;  // a folder with an adapter to go on from
    std::string adapters;              // JSON: several that train together, or a file of them
    std::optional<int64_t> adapters_at_a_time;  // of these in a micro-batch; unset: all
    bool merge = false;                         // for export

    // Of so many adapters: those that have rows in one micro-batch.
    int64_t at_a_time(int64_t num_adapters) const {
        return std::min(num_adapters, adapters_at_a_time.value_or(num_adapters));
    }
};

}  // namespace ringshard::config
