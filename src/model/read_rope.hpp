#pragma once

#include <string>
#include <vector>

#include "config_reader.hpp"
#include "ringshard/model/rope_spec.hpp"

namespace ringshard::model {

// The RoPE settings of an architecture, with transformers' defaults for fields that config.json
// lacks.
struct RopeForm {
    int64_t head_dim = 0;
    int64_t max_positions = 0;
    double theta = 10000.0;
    const char* theta_name = "rope_theta";
    const char* part_name = "partial_rotary_factor";  // outside of the RoPE object
    bool may_be_partial = false;
    // Of an odd number of elements, one more rotates: the frequencies are those of the odd number.
    bool rotates_pairs = false;
    double rotated_part = 1.0;
    bool is_interleaved = false;
    bool knows_alpha = false;   // "dynamic" with an alpha scales theta
    bool is_of_layers = false;  // one of several, in whose objects transformers reads no truncate
    // original_max_position_embeddings from outside of the RoPE object; 0: the object has it.
    int64_t original_positions = 0;
    std::vector<std::string> other_keys{};  // that other readers use
    nlohmann::json usual{};                 // the RoPE object if config.json has none
};

// Reads rope_theta, and rope_scaling or rope_parameters.
RopeSpec read_rope(ConfigReader& config, const RopeForm& form);

// Returns the RoPE of layers with full attention, and of those with a sliding window.
std::vector<RopeSpec> read_ropes_by_layer(ConfigReader& config, const RopeForm& full,
                                          const RopeForm& sliding);

}  // namespace ringshard::model
