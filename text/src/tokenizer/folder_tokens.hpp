#pragma once

#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "folder_files.hpp"
#include "ringshard/text/tokenizer.hpp"
#include "tokenizer_class.hpp"

namespace ringshard::text {

// A special token, given as text or as a full added token.
using Special = std::variant<std::string, AddedToken>;
inline const std::string& text_of(const Special& special) {
    if (const auto* const token = std::get_if<AddedToken>(&special)) return token->content;
    return std::get<std::string>(special);
}

// The special and added tokens of a tokenizer's folder: from tokenizer_config.json or, for tokens
// that it does not list, from special_tokens_map.json, added_tokens.json and tokenizer.json.
class FolderTokens {
public:
    // content: of tokenizer.json. Throws an Error that names the file.
    FolderTokens(const std::filesystem::path& folder, Value config, const TokenizerClass& chosen,
                 const std::string& content);

    void add_to(Tokenizer& tokenizer, const TokenizerClass& chosen);
    // By name, such as eos_token; complete after add_to().
    const std::vector<std::pair<std::string, Special>>& by_name() const { return special_; }
    const std::vector<Special>& extra() const { return extra_; }

private:
    Special read_special(const Value& value, const std::string& key) const;
    void collect(const TokenizerClass& chosen, const std::string& content);
    void put_own(const std::string& key, const Special& value);
    bool is_empty(const char* key) const;
    Special completed(const Special& value) const;
    void read_added(std::map<std::string, Special>& values, Value& extra,
                    const std::string& content);
    void read_special_tokens_map(std::map<std::string, Special>& values, Value& extra);
    void keep(std::map<std::string, Special>& values, const std::string& key, const Special& value);
    void read_added_of_file(const std::string& content);
    int64_t number_of(const std::string& id) const;

    std::filesystem::path folder_;
    std::filesystem::path config_file_;
    Value config_;
    std::map<int64_t, AddedToken> added_;
    std::vector<std::pair<std::string, Special>> special_;
    std::vector<std::pair<std::string, Special>> special_of_map_;
    std::vector<Special> extra_;
};

}  // namespace ringshard::text
