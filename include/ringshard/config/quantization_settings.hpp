#pragma once

#include <string>

namespace ringshard::config {

// The frozen model in four or eight bits, under the names of TRL's ModelConfig.
struct QuantizationSettings {
    bool load_in_4bit = false;
    bool load_in_8bit = false;
    std::string bnb_4bit_quant_type = "nf4";
    bool use_bnb_nested_quant = false;

    bool is_on() const { return load_in_4bit || load_in_8bit; }
    const char* setting() const { return load_in_8bit ? "load_in_8bit" : "load_in_4bit"; }
};

}  // namespace ringshard::config
