#pragma once

#include <string>

namespace ringshard::config {

// The frozen model in four bits, under the names of TRL's ModelConfig.
struct QuantizationSettings {
    bool load_in_4bit = false;
    std::string bnb_4bit_quant_type = "nf4";
    bool use_bnb_nested_quant = false;
};

}  // namespace ringshard::config
