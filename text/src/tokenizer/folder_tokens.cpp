#include "folder_tokens.hpp"

#include <algorithm>
#include <set>

#include "json_reader.hpp"
#include "ringshard/base/files.hpp"

namespace ringshard::text {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view named[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                      "pad_token", "cls_token", "mask_token"};
bool is_named(std::string_view key) { return std::ranges::find(named, key) != std::end(named); }

bool is_added_token(const Value& value) {
    const std::string* const type = text_in(value, "__type");
    return type != nullptr && *type == "AddedToken";
}

// Returns the id of a token; nothing if it is missing or not a whole number from 0 on.
std::optional<int64_t> id_of(const Value* value) {
    const int64_t* const number = value == nullptr ? nullptr : value->integer();
    return number != nullptr && *number >= 0 ? std::optional(*number) : std::nullopt;
}

AddedToken read_token(const Value& token, const fs::path& file, const std::string& key,
                      std::optional<bool> special = {}) {
    const std::string* const content = text_in(token, "content");
    if (content == nullptr) refuse(file, format_text("\"{}\" holds a token without content", key));
    const auto flag = [&](const char* name, bool otherwise) {
        const Value* const found = find(token, name);
        if (found == nullptr) return otherwise;
        if (found->truth() == nullptr)
            refuse(file, format_text("\"{}\" of \"{}\" is neither true nor false", name, key));
        return *found->truth();
    };
    AddedToken result;
    result.content = *content;
    result.special = special.value_or(flag("special", false));
    result.single_word = flag("single_word", false);
    result.lstrip = flag("lstrip", false);
    result.rstrip = flag("rstrip", false);
    result.normalized = flag("normalized", !result.special);
    return result;
}

// Appends the tokens that are not listed yet; those of a special_tokens_map.json are special.
void merge_tokens(Value::List& listed, const Value::List& tokens) {
    for (const Value& token : tokens) {
        if (std::ranges::find(listed, token) != listed.end()) continue;
        listed.push_back(token);
        if (token.object() == nullptr) continue;
        listed.back().set("__type", Value(std::string("AddedToken")));
        listed.back().set("special", Value(true));
    }
}

void add(Tokenizer& tokenizer, const std::vector<AddedToken>& tokens) {
    if (const auto failure = tokenizer.add_tokens(tokens)) throw Error(*failure);
}

}  // namespace

FolderTokens::FolderTokens(const fs::path& folder, Value config, const TokenizerClass& chosen,
                           const std::string& content)
    : folder_(folder), config_file_(folder / "tokenizer_config.json"), config_(std::move(config)) {
    collect(chosen, content);
}

Special FolderTokens::read_special(const Value& value, const std::string& key) const {
    if (value.string() != nullptr) return *value.string();
    if (is_added_token(value)) return read_token(value, config_file_, key);
    refuse(config_file_, format_text("\"{}\" is neither a text nor an added token", key));
}

void FolderTokens::collect(const TokenizerClass& chosen, const std::string& content) {
    const Value* const additional = config_.find("additional_special_tokens");
    if (additional != nullptr && is_empty("extra_special_tokens")) {
        config_.set("extra_special_tokens", Value(*additional));
        std::erase_if(*config_.object(), [](const auto& member) {
            return member.first == "additional_special_tokens";
        });
    }
    std::vector<std::pair<std::string, Special>> own;  // of this model alone, such as image_token
    for (const auto& [key, value] : *config_.object())
        if (key.ends_with("_token") && !is_named(key) && is_added_token(value))
            own.emplace_back(key, read_special(value, key));
    for (const auto& [key, value] : *config_.object())
        if (key.ends_with("_token") && !is_named(key) && value.string() != nullptr)
            own.emplace_back(key, *value.string());
    const Value* const stated = config_.find("extra_special_tokens");
    Value extra = stated == nullptr ? Value() : *stated;
    if (extra.object() != nullptr) {
        for (const auto& [key, value] : *extra.object())
            own.emplace_back(key, read_special(value, key));
        extra = Value();
    }
    std::map<std::string, Special> values;
    read_added(values, extra, content);
    for (const auto& [key, value] : *config_.object())
        if (is_named(key) && !value.is_null() && !values.contains(key))
            values[key] = read_special(value, key);
    for (const auto& [key, text] : chosen.default_tokens)
        if (config_.find(key) == nullptr && !values.contains(key)) values[key] = text;
    for (const std::string_view key : named)
        if (const auto found = values.find(std::string(key)); found != values.end())
            special_.emplace_back(key, completed(found->second));
    for (auto& [key, value] : own) put_own(key, value);
    if (extra.list() != nullptr)
        for (const Value& value : *extra.list())
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
    const Value* const value = find(config_, key);
    return value == nullptr || (value->list() != nullptr && value->list()->empty()) ||
           (value->object() != nullptr && value->object()->empty());
}

// Replaces a token given as text by the added token of that text, if there is one.
Special FolderTokens::completed(const Special& value) const {
    for (const auto& [id, token] : added_)
        if (token.content == text_of(value)) return token;
    return value;
}

// Reads added_tokens_decoder; without it, older files and tokenizer.json.
void FolderTokens::read_added(std::map<std::string, Special>& values, Value& extra,
                              const std::string& content) {
    if (const Value* const tokens = config_.find("added_tokens_decoder")) {
        if (tokens->object() == nullptr)
            refuse(config_file_, "\"added_tokens_decoder\" is not an object");
        for (const auto& [id, token] : *tokens->object())
            added_[number_of(id)] = read_token(token, config_file_, "added_tokens_decoder");
        return;
    }
    read_special_tokens_map(values, extra);
    std::set<std::string> special;
    for (const auto& [key, value] : values) special.insert(text_of(value));
    for (const auto& [key, value] : *config_.object())
        if (is_named(key) && value.string() != nullptr && !values.contains(key))
            special.insert(*value.string());
    if (extra.list() != nullptr)
        for (const Value& value : *extra.list())
            special.insert(text_of(read_special(value, "extra")));
    const fs::path added_file = folder_ / "added_tokens.json";
    const Value listed = read_object(added_file);
    for (const auto& [text, stated] : *listed.object()) {
        const auto id = id_of(&stated);
        if (!id) refuse(added_file, format_text("the token \"{}\" has no valid id", text));
        const bool is_special = special.contains(text);
        AddedToken token;
        token.content = text;
        token.special = is_special;
        token.normalized = !is_special;
        added_[*id] = token;
    }
    read_added_of_file(content);
}

void FolderTokens::read_special_tokens_map(std::map<std::string, Special>& values, Value& extra) {
    const fs::path file = folder_ / "special_tokens_map.json";
    const Value listed = read_object(file);
    for (const auto& [key, value] : *listed.object()) {
        if (key == "extra_special_tokens" && value.list() != nullptr) {
            if (extra.list() == nullptr) extra = Value(Value::List());
            merge_tokens(*extra.list(), *value.list());
        } else if (key == "additional_special_tokens" && value.list() != nullptr) {
            if (config_.find("extra_special_tokens") == nullptr) extra = value;
        } else if (key.ends_with("_token") && value.object() != nullptr) {
            keep(values, key, read_token(value, file, key, true));
        } else if (key.ends_with("_token") && value.string() != nullptr) {
            keep(values, key, *value.string());
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
    const fs::path file = folder_ / "tokenizer.json";
    const auto whole = read_json(content);
    if (!whole || whole.value().object() == nullptr) refuse(file, "is not a JSON object");
    const Value* const tokens = whole.value().find("added_tokens");
    if (tokens == nullptr) return;
    if (tokens->list() == nullptr) refuse(file, "\"added_tokens\" is not a list");
    for (const Value& token : *tokens->list()) {
        const auto id = id_of(token.find("id"));
        if (!id) refuse(file, "\"added_tokens\" holds a token without id");
        added_[*id] = read_token(token, file, "added_tokens");
    }
}

int64_t FolderTokens::number_of(const std::string& id) const {
    if (id.empty() || id.size() > 9 ||
        !std::ranges::all_of(id, [](char c) { return c >= '0' && c <= '9'; }))
        refuse(config_file_, format_text("\"added_tokens_decoder\" has the id \"{}\"", id));
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
