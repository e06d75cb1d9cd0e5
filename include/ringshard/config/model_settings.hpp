#pragma once

#include <string>
#include <vector>

namespace ringshard::config {

struct ModelSettings {
    std::string model_name_or_path;
    std::string model_revision = "main";
    std::string dtype = "float32";  // of loading and exporting only: masters are fp32
    std::string chat_template_path;
    std::string config_json;  // of a model to be made
    std::string checkpoint;   // to be exported
    std::string max_shard_size = "5GB";
    std::string eos_token;
    std::vector<std::string> added_tokens;
    std::string freeze;      // a regular expression, found in the names of what is not trained
    std::string train_only;  // and in the names of all that is trained
};

}  // namespace ringshard::config
