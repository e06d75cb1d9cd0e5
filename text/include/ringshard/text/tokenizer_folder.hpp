#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringshard/text/tokenizer.hpp"

namespace ringshard::text {

// The tokenizer of a Hugging Face folder with its sidecar files, read like
// AutoTokenizer.from_pretrained: tokenizer.json, tokenizer_config.json, special_tokens_map.json,
// added_tokens.json, chat_template.jinja, additional_chat_templates/, and config.json for the model
// type.
struct TokenizerFolder {
    Tokenizer tokenizer;
    // Pairs such as "bos_token" and "<s>", in the order in which a chat template receives them.
    std::vector<std::pair<std::string, std::string>> special_tokens;
    std::vector<std::string> extra_special_tokens;
    // By name; the standard one is "default".
    std::map<std::string, std::string> chat_templates;

    static Expected<TokenizerFolder> read(const std::filesystem::path& folder);

    // Returns the text, or the id, of a special token such as "eos_token"; nothing if there is
    // none.
    std::optional<std::string> special_token(std::string_view name) const;
    std::optional<int32_t> special_token_id(std::string_view name) const;
    // Returns the template for conversations with or without tools.
    std::optional<std::string> chat_template(bool with_tools) const;
};

}  // namespace ringshard::text
