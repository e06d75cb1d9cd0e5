#include "folder_tokens.hpp"

#include <algorithm>
#include <set>

#include "ringshard/base/error.hpp"
#include "ringshard/base/nesting.hpp"

namespace ringshard::text {

using json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view named[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                      "pad_token", "cls_token", "mask_token"};
bool is_named(std::string_view key) { return std::ranges::find(named, key) != std::end(named); }

AddedToken read_token(const json& token, const fs::path& file, const std::string& key,
                      std::optional<bool> special = {}) {
    if (!token.is_object() || !token.contains("content") || !token["content"].is_string())
        refuse(file, concat("\"", key, "\" holds a token without content"));
    const auto flag = [&](const char* name, bool otherwise) {
        const auto found = token.find(name);
        if (found == token.end() || found->is_null()) return otherwise;
        if (!found->is_boolean())
            refuse(file, concat("\"", name, "\" of \"", key, "\" is neither true nor false"));
        return found->get<bool>();
    };
    AddedToken result;
    result.content = token["content"].get<std::string>();
    result.special = special.value_or(flag("special", false));
    result.single_word = flag("single_word", false);
    result.lstrip = flag("lstrip", false);
    result.rstrip = flag("rstrip", false);
    result.normalized = flag("normalized", !result.special);
    return result;
}

void add(Tokenizer& tokenizer, const std::vector<AddedToken>& tokens) {
    if (const auto failure = tokenizer.add_tokens(tokens)) throw Error(*failure);
}

}  // namespace

FolderTokens::FolderTokens(const fs::path& folder, json config, const TokenizerClass& chosen,
                           const std::string& content)
    : folder_(folder), config_file_(folder / "tokenizer_config.json"), config_(std::move(config)) {
    collect(chosen, content);
}

Special FolderTokens::read_special(const json& value, const std::string& key) const {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_object() && value.value("__type", json()) == "AddedToken")
        return read_token(value, config_file_, key);
    refuse(config_file_, concat("\"", key, "\" is neither a text nor an added token"));
}

void FolderTokens::collect(const TokenizerClass& chosen, const std::string& content) {
    if (config_.contains("additional_special_tokens") && is_empty("extra_special_tokens")) {
        config_["extra_special_tokens"] = config_["additional_special_tokens"];
        config_.erase("additional_special_tokens");
    }
    std::vector<std::pair<std::string, Special>> own;  // of this model alone, such as image_token
    for (const auto& [key, value] : config_.items())
        if (std::string_view(key).ends_with("_token") && !is_named(key) && value.is_object() &&
            value.value("__type", json()) == "AddedToken")
            own.emplace_back(key, read_special(value, key));
    for (const auto& [key, value] : config_.items())
        if (std::string_view(key).ends_with("_token") && !is_named(key) && value.is_string())
            own.emplace_back(key, value.get<std::string>());
    json extra = config_.value("extra_special_tokens", json());
    if (extra.is_object()) {
        for (const auto& [key, value] : extra.items())
            own.emplace_back(key, read_special(value, key));
        extra = json();
    }
    std::map<std::string, Special> values;
    read_added(values, extra, content);
    for (const auto& [key, value] : config_.items())
        if (is_named(key) && !value.is_null() && !values.contains(key))
            values[key] = read_special(value, key);
    for (const auto& [key, text] : chosen.default_tokens)
        if (!config_.contains(key) && !values.contains(key)) values[key] = text;
    for (const std::string_view key : named)
        if (const auto found = values.find(std::string(key)); found != values.end())
            special_.emplace_back(key, completed(found->second));
    for (auto& [key, value] : own) put_own(key, value);
    if (extra.is_array())
        for (const json& value : extra)
            extra_.push_back(read_special(value, "extra_special_tokens"));
}

void FolderTokens::put_own(const std::string& key, const Special& value) {
    const auto found =
        std::ranges::find(special_, key, [](const auto& entry) { return entry.first; });
    if (found != special_.end())
        found->second = value;
    else
        special_.emplace_back(key, value);
}

bool FolderTokens::is_empty(const char* key) const {
    const json value = config_.value(key, json());
    return value.is_null() || ((value.is_array() || value.is_object()) && value.empty());
}

// Replaces a token given as text by the added token of that text, if there is one.
Special FolderTokens::completed(const Special& value) const {
    for (const auto& [id, token] : added_)
        if (token.content == text_of(value)) return token;
    return value;
}

// Reads added_tokens_decoder; without it, older files and tokenizer.json.
void FolderTokens::read_added(std::map<std::string, Special>& values, json& extra,
                              const std::string& content) {
    if (config_.contains("added_tokens_decoder")) {
        const json& tokens = config_["added_tokens_decoder"];
        if (!tokens.is_object()) refuse(config_file_, "\"added_tokens_decoder\" is not an object");
        for (const auto& [id, token] : tokens.items())
            added_[number_of(id)] = read_token(token, config_file_, "added_tokens_decoder");
        return;
    }
    read_special_tokens_map(values, extra);
    std::set<std::string> special;
    for (const auto& [key, value] : values) special.insert(text_of(value));
    for (const auto& [key, value] : config_.items())
        if (is_named(key) && value.is_string() && !values.contains(key))
            special.insert(value.get<std::string>());
    if (extra.is_array())
        for (const json& value : extra) special.insert(text_of(read_special(value, "extra")));
    const fs::path added_file = folder_ / "added_tokens.json";
    const json listed = read_object(added_file);
    for (const auto& [text, id] : listed.items()) {
        if (!id.is_number_unsigned())
            refuse(added_file, concat("the token \"", text, "\" has no valid id"));
        const bool is_special = special.contains(text);
        AddedToken token;
        token.content = text;
        token.special = is_special;
        token.normalized = !is_special;
        added_[id.get<int64_t>()] = token;
    }
    read_added_of_file(content);
}

void FolderTokens::read_special_tokens_map(std::map<std::string, Special>& values, json& extra) {
    const fs::path file = folder_ / "special_tokens_map.json";
    const json listed = read_object(file);
    for (const auto& [key, value] : listed.items()) {
        if (key == "extra_special_tokens" && value.is_array()) {
            json merged = extra.is_array() ? extra : json::array();
            for (const json& token : value)
                if (std::ranges::find(merged, token) == merged.end()) {
                    merged.push_back(token);
                    if (token.is_object()) merged.back()["__type"] = "AddedToken";
                    if (token.is_object()) merged.back()["special"] = true;
                }
            extra = merged;
        } else if (key == "additional_special_tokens" && value.is_array()) {
            if (!config_.contains("extra_special_tokens")) extra = value;
        } else if (std::string_view(key).ends_with("_token") && value.is_object()) {
            keep(values, key, read_token(value, file, key, true));
        } else if (std::string_view(key).ends_with("_token") && value.is_string()) {
            keep(values, key, value.get<std::string>());
        }
    }
}

void FolderTokens::keep(std::map<std::string, Special>& values, const std::string& key,
                        const Special& value) {
    if (is_named(key))
        values[key] = value;
    else
        special_of_map_.emplace_back(key, value);
}

void FolderTokens::read_added_of_file(const std::string& content) {
    // Keep only this list of a large file.
    const fs::path file = folder_ / "tokenizer.json";
    const auto wanted = [](int depth, json::parse_event_t event, json& parsed) {
        return !(depth == 1 && event == json::parse_event_t::key && parsed != "added_tokens");
    };
    const json whole = is_nested_deeply(content) ? json() : json::parse(content, wanted, false);
    if (!whole.is_object()) refuse(file, "is not a JSON object");
    const json tokens = whole.value("added_tokens", json::array());
    if (!tokens.is_array()) refuse(file, "\"added_tokens\" is not a list");
    for (const json& token : tokens) {
        if (!token.is_object() || !token.value("id", json()).is_number_unsigned())
            refuse(file, "\"added_tokens\" holds a token without id");
        added_[token["id"].get<int64_t>()] = read_token(token, file, "added_tokens");
    }
}

int64_t FolderTokens::number_of(const std::string& id) const {
    if (id.empty() || id.size() > 9 ||
        !std::ranges::all_of(id, [](char c) { return c >= '0' && c <= '9'; }))
        refuse(config_file_, concat("\"added_tokens_decoder\" has the id \"", id, "\""));
    return std::stoll(id);
}

void FolderTokens::add_to(Tokenizer& tokenizer, const TokenizerClass& chosen) {
    for (auto& [key, value] : special_of_map_) special_.emplace_back(key, value);
    std::set<std::string> known;
    for (const auto& [id, token] : tokenizer.added_tokens()) known.insert(token.content);
    std::vector<AddedToken> wanted;  // also those of the file, which may become special
    for (const auto& [id, token] : added_) {
        wanted.push_back(token);
        known.insert(token.content);
    }
    // If a text comes both as text and as a token, the later one counts.
    std::vector<Special> seen;
    const auto want = [&](const Special& value) {
        if (known.contains(text_of(value)) || std::ranges::find(seen, value) != seen.end()) return;
        seen.push_back(value);
        if (const auto* const token = std::get_if<AddedToken>(&value))
            wanted.push_back(*token);
        else
            wanted.push_back({.content = text_of(value), .normalized = false, .special = true});
    };
    std::set<std::string> texts;
    for (const auto& [key, value] : special_) {
        want(value);
        texts.insert(text_of(value));
    }
    for (const Special& value : extra_) want(value);
    for (AddedToken& token : wanted) token.special = token.special || texts.contains(token.content);
    add(tokenizer, wanted);
    if (chosen.name != "Qwen2Tokenizer") return;
    std::vector<AddedToken> again;  // this class adds its special tokens again, without options
    for (const auto& [key, value] : special_)
        again.push_back({.content = text_of(value), .normalized = false, .special = true});
    for (const Special& value : extra_)
        again.push_back({.content = text_of(value), .normalized = false, .special = true});
    add(tokenizer, again);
}

}  // namespace ringshard::text
