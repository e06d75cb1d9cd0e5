#pragma once

#include <cstdint>
#include <string>

namespace ringshard::model {

// How the files hold the matrices of a model, by quantization_config in config.json.
struct StoredForm {
    std::string method{};  // quant_method; empty: as numbers
    int64_t bits = 0;      // of a code
    int64_t group = 0;     // inputs that share a scale; 0: all
    // Zeros lie in the files less 1.
    bool adds_one_to_zeros = false;
    // Modules may have bits and a group of their own: shapes say them.
    bool differs_by_module = false;
    // Whether all weights may train, as the numbers that were read; else adapters alone.
    bool trains_whole = true;

    bool is_quantised() const { return !method.empty(); }
};

}  // namespace ringshard::model
