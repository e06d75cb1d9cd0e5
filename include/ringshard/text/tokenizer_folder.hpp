#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringshard/text/tokenizer.hpp"

namespace ringshard::text {

// The tokenizer of a Hugging Face folder with its sidecar files, as AutoTokenizer.from_pretrained
// reads them: tokenizer.json, tokenizer_config.json, special_tokens_map.json, added_tokens.json,
// chat_template.jinja, additional_chat_templates/, and config.json for the kind of model.
struct TokenizerFolder {
    Tokenizer tokenizer;
    // "bos_token" -> "<s>" and so on, in the order in which a chat template is given them.
    std::vector<std::pair<std::string, std::string>> special_tokens;
    std::vector<std::string> extra_special_tokens;
    // By name; the usual one is "default".
    std::map<std::string, std::string> chat_templates;

    static Expected<TokenizerFolder> read(const std::filesystem::path& folder);

    // The text of a special token such as "eos_token", and its id; nothing if there is none.
    std::optional<std::string> special_token(std::string_view name) const;
    std::optional<int32_t> special_token_id(std::string_view name) const;
    // The template for conversations with or without tools.
    std::optional<std::string> chat_template(bool with_tools) const;
};

}  // namespace ringshard::text
