#pragma once

#include <cstdint>
#include <optional>

#include "config_reader.hpp"

namespace ringshard::model {

enum class Bias { never, on_qkv, as_config_says };
enum class Window { never, always, if_named, as_config_says };

// The differences between the architectures of transformers. Numbers are its defaults for fields
// that config.json leaves out; 0: they follow from other fields.
struct Architecture {
    const char* name;
    const char* model_type;
    Bias bias = Bias::never;
    Window window = Window::never;
    bool is_fused = false;
    bool has_head_norms = false;
    bool has_plain_positions = false;  // and no others that are served
    int64_t head_dim = 0;
    int64_t key_heads = 0;
    double norm_epsilon = 1e-6;
    std::optional<int64_t> padding_token = std::nullopt;
};

// Returns the architecture that `architectures` and `model_type` name; one of them is enough.
// Complains to `config`, and returns nullptr, where they name none, or two different ones.
const Architecture* find_architecture(ConfigReader& config);

// Returns a config.json with both fields: transformers cannot load one without model_type, and
// other readers look for architectures. One that has both stays as it is, byte for byte.
std::string with_architecture(const std::string& config_json, const Architecture& architecture);

}  // namespace ringshard::model
