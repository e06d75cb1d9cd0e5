#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringshard::text {

// The Python class that reads a folder's tokenizer.json: some use it unchanged, others use only its
// vocabulary, merges and post-processor, and rebuild the rest.
struct TokenizerClass {
    std::string name;
    bool rebuilds = false;
    bool is_supported = true;
    // Special tokens if tokenizer_config.json does not set them.
    std::vector<std::pair<std::string, std::string>> default_tokens;
};

struct ClassClues {
    std::optional<std::string>
        stated;              // tokenizer_class of tokenizer_config.json, else of config.json
    std::string model_type;  // of config.json; empty: unknown
    bool mentions_byte_level = false;  // in tokenizer.json
};

TokenizerClass choose_class(const ClassClues& clues);

// Settings of tokenizer_config.json that affect a rebuilding class.
struct RebuildSettings {
    std::optional<bool> add_prefix_space;
    bool legacy = false;
};
// Returns the replacement parts of tokenizer.json, as a JSON object.
std::string rebuilt_parts(const TokenizerClass& tokenizer_class, const RebuildSettings& settings);

}  // namespace ringshard::text
