#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ringshard::config {

struct ModelSettings {
    std::string model_name_or_path;
    std::string model_revision = "main";
    std::string dtype = "float32";  // for loading and exporting; master weights are fp32
    std::string chat_template_path;
    std::string chat_template;     // Jinja
    std::string config_overrides;  // JSON: fields of config.json
    std::string rope_parameters;   // JSON: the field of config.json
    std::optional<int64_t> max_position_embeddings;
    std::string config_json;  // of a new model
    std::string checkpoint;   // to export
    std::string max_shard_size = "5GB";
    std::string eos_token;
    std::vector<std::string> added_tokens;
    std::string freeze;      // regular expression: freeze tensors whose name matches
    std::string train_only;  // regular expression: train only tensors whose name matches
    std::optional<double> router_aux_loss_coef;  // unset: that of the model

    // Returns the fields of config.json that the settings give, as a JSON mapping; empty if none.
    std::string overrides() const;
};

}  // namespace ringshard::config
