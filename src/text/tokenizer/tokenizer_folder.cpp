#include "ringshard/text/tokenizer_folder.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <variant>

#include "ringshard/base/files.hpp"
#include "ringshard/base/nesting.hpp"
#include "ringshard/base/shell_word.hpp"
#include "tokenizer_class.hpp"

namespace ringshard::text {

namespace {

using json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::string_view named[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                      "pad_token", "cls_token", "mask_token"};
bool is_named(std::string_view key) { return std::ranges::find(named, key) != std::end(named); }

[[noreturn]] void refuse(const fs::path& file, const std::string& what) {
    throw Error(ExitCode::bad_data, concat(file.string(), ": ", what));
}

// A JSON object; empty if there is no such file.
json read_object(const fs::path& file) {
    const auto content = read_file(file);
    if (!content) return json::object();
    json object = is_nested_deeply(*content) ? json() : json::parse(*content, nullptr, false);
    if (!object.is_object()) refuse(file, "is not a JSON object");
    return object;
}

// A file of text, with line ends as Python reads them.
std::string read_text(const fs::path& file) {
    std::string text;
    const auto content = read_file(file);
    if (!content) refuse(file, "cannot be read");
    for (size_t i = 0; i < content->size(); ++i) {
        const char c = (*content)[i];
        if (c == '\r' && i + 1 < content->size() && (*content)[i + 1] == '\n') continue;
        text += c == '\r' ? '\n' : c;
    }
    return text;
}

// The folder has no tokenizer.json; names the files of a slow tokenizer where they are there.
Failure no_tokenizer_in(const fs::path& folder) {
    std::string found;
    for (const auto* name : {"tokenizer.model", "vocab.json", "vocab.txt"})
        if (found.empty() && file_exists(folder / name)) found = name;
    if (found.empty())
        return {ExitCode::missing_input, concat(folder.string(), ": holds no tokenizer.json")};
    return {ExitCode::bad_data,
            concat(folder.string(), ": holds ", found,
                   " and no tokenizer.json, the only format that is read; write one: python -c "
                   "\"import sys, transformers as t; a = sys.argv[1]; t.AutoTokenizer"
                   ".from_pretrained(a).backend_tokenizer.save(a + '/tokenizer.json')\" ",
                   shell_word(folder.string()))};
}

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

// A special token is given by its text alone, or with all that an added token has.
using Special = std::variant<std::string, AddedToken>;
const std::string& text_of(const Special& special) {
    if (const auto* const token = std::get_if<AddedToken>(&special)) return token->content;
    return std::get<std::string>(special);
}

class FolderReader {
public:
    explicit FolderReader(const fs::path& folder)
        : folder_(folder),
          config_file_(folder / "tokenizer_config.json"),
          config_(read_object(config_file_)) {}

    TokenizerFolder read() {
        check_settings();
        const auto content = read_file(folder_ / "tokenizer.json");
        if (!content) throw Error(no_tokenizer_in(folder_));
        const TokenizerClass chosen = choose(*content);
        auto templates = read_templates();
        collect_tokens(chosen, *content);
        RebuildSettings settings;
        if (config_.contains("add_prefix_space") && config_["add_prefix_space"].is_boolean())
            settings.add_prefix_space = config_["add_prefix_space"].get<bool>();
        settings.legacy = config_.value("legacy", json()) == true;
        TokenizerFolder result{
            .tokenizer = Tokenizer::from_json(*content, (folder_ / "tokenizer.json").string(),
                                              rebuilt_parts(chosen, settings))
                             .value(),
            .special_tokens = {},
            .extra_special_tokens = {},
            .chat_templates = std::move(templates)};
        add_tokens(result.tokenizer, chosen);
        for (const auto& [key, value] : special_)
            result.special_tokens.emplace_back(key, text_of(value));
        for (const Special& value : extra_) result.extra_special_tokens.push_back(text_of(value));
        return result;
    }

private:
    void check_settings() const {
        for (const char* const key :
             {"split_special_tokens", "fix_mistral_regex",
              "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"})
            if (config_.value(key, json()) == true)
                refuse(config_file_, concat("\"", key, "\": true is not supported"));
        if (config_.contains("auto_map"))
            refuse(config_file_,
                   "\"auto_map\": tokenizers with Python code of their own are not supported");
    }

    TokenizerClass choose(const std::string& content) const {
        const json model = read_object(folder_ / "config.json");
        ClassClues clues;
        for (const json* const source : {&config_, &model})
            if (!clues.stated && source->contains("tokenizer_class") &&
                (*source)["tokenizer_class"].is_string())
                clues.stated = (*source)["tokenizer_class"].get<std::string>();
        if (model.contains("model_type") && model["model_type"].is_string())
            clues.model_type = model["model_type"].get<std::string>();
        clues.mentions_byte_level = content.find("\"ByteLevel\"") != std::string::npos;
        const TokenizerClass chosen = choose_class(clues);
        if (!chosen.is_supported)
            refuse(config_file_, concat("\"tokenizer_class\" ", chosen.name, " is not supported"));
        return chosen;
    }

    std::map<std::string, std::string> read_templates() const {
        std::map<std::string, std::string> templates;
        if (exists(folder_ / "chat_template.jinja"))
            templates["default"] = read_text(folder_ / "chat_template.jinja");
        if (is_directory(folder_ / "additional_chat_templates"))
            for (const auto& entry : fs::directory_iterator(folder_ / "additional_chat_templates"))
                if (entry.path().extension() == ".jinja")
                    templates[entry.path().stem().string()] = read_text(entry.path());
        if (!templates.empty()) return templates;  // files stand above the setting
        const json stated = config_.value("chat_template", json());
        if (stated.is_string()) {
            templates["default"] = stated.get<std::string>();
        } else if (stated.is_array()) {
            for (const json& each : stated) {
                if (!each.is_object() || !each.value("name", json()).is_string() ||
                    !each.value("template", json()).is_string())
                    refuse(config_file_, "\"chat_template\" holds a template without name or text");
                templates[each["name"].get<std::string>()] = each["template"].get<std::string>();
            }
        } else if (!stated.is_null()) {
            refuse(config_file_, "\"chat_template\" is neither a text nor a list of templates");
        }
        return templates;
    }

    // --- special tokens -------------------------------------------------------------------------

    Special read_special(const json& value, const std::string& key) const {
        if (value.is_string()) return value.get<std::string>();
        if (value.is_object() && value.value("__type", json()) == "AddedToken")
            return read_token(value, config_file_, key);
        refuse(config_file_, concat("\"", key, "\" is neither a text nor an added token"));
    }

    void collect_tokens(const TokenizerClass& chosen, const std::string& content) {
        if (config_.contains("additional_special_tokens") && is_empty("extra_special_tokens")) {
            config_["extra_special_tokens"] = config_["additional_special_tokens"];
            config_.erase("additional_special_tokens");
        }
        std::vector<std::pair<std::string, Special>> own;  // of this model alone, like image_token
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

    void put_own(const std::string& key, const Special& value) {
        const auto found =
            std::ranges::find(special_, key, [](const auto& entry) { return entry.first; });
        if (found != special_.end())
            found->second = value;
        else
            special_.emplace_back(key, value);
    }
    bool is_empty(const char* key) const {
        const json value = config_.value(key, json());
        return value.is_null() || ((value.is_array() || value.is_object()) && value.empty());
    }
    // A token that is given by its text is the added token of that text, if there is one.
    Special completed(const Special& value) const {
        for (const auto& [id, token] : added_)
            if (token.content == text_of(value)) return token;
        return value;
    }

    // added_tokens_decoder says all; without it, older files and tokenizer.json do.
    void read_added(std::map<std::string, Special>& values, json& extra,
                    const std::string& content) {
        if (config_.contains("added_tokens_decoder")) {
            const json& tokens = config_["added_tokens_decoder"];
            if (!tokens.is_object())
                refuse(config_file_, "\"added_tokens_decoder\" is not an object");
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
                refuse(added_file, concat("the id of \"", text, "\" is none"));
            const bool is_special = special.contains(text);
            AddedToken token;
            token.content = text;
            token.special = is_special;
            token.normalized = !is_special;
            added_[id.get<int64_t>()] = token;
        }
        read_added_of_file(content);
    }

    void read_special_tokens_map(std::map<std::string, Special>& values, json& extra) {
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
    void keep(std::map<std::string, Special>& values, const std::string& key,
              const Special& value) {
        if (is_named(key))
            values[key] = value;
        else
            special_of_map_.emplace_back(key, value);
    }

    void read_added_of_file(const std::string& content) {
        // Only this list is wanted of a large file.
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

    int64_t number_of(const std::string& id) const {
        if (id.empty() || id.size() > 9 ||
            !std::ranges::all_of(id, [](char c) { return c >= '0' && c <= '9'; }))
            refuse(config_file_, concat("\"added_tokens_decoder\" has the id \"", id, "\""));
        return std::stoll(id);
    }

    void add_tokens(Tokenizer& tokenizer, const TokenizerClass& chosen) {
        for (auto& [key, value] : special_of_map_) special_.emplace_back(key, value);
        std::set<std::string> known;
        for (const auto& [id, token] : tokenizer.added_tokens()) known.insert(token.content);
        std::vector<AddedToken> wanted;  // those of the file too: some become special by their use
        for (const auto& [id, token] : added_) {
            wanted.push_back(token);
            known.insert(token.content);
        }
        // The same text may come as a plain text and as a token: then the later one counts.
        std::vector<Special> seen;
        const auto want = [&](const Special& value) {
            if (known.contains(text_of(value)) || std::ranges::find(seen, value) != seen.end())
                return;
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
        for (AddedToken& token : wanted)
            token.special = token.special || texts.contains(token.content);
        add(tokenizer, wanted);
        if (chosen.name != "Qwen2Tokenizer") return;
        std::vector<AddedToken> again;  // this class states its special tokens once more, plainly
        for (const auto& [key, value] : special_)
            again.push_back({.content = text_of(value), .normalized = false, .special = true});
        for (const Special& value : extra_)
            again.push_back({.content = text_of(value), .normalized = false, .special = true});
        add(tokenizer, again);
    }
    static void add(Tokenizer& tokenizer, const std::vector<AddedToken>& tokens) {
        if (const auto failure = tokenizer.add_tokens(tokens)) throw Error(*failure);
    }

    fs::path folder_;
    fs::path config_file_;
    json config_;
    std::map<int64_t, AddedToken> added_;
    std::vector<std::pair<std::string, Special>> special_;
    std::vector<std::pair<std::string, Special>> special_of_map_;
    std::vector<Special> extra_;
};

}  // namespace

Expected<TokenizerFolder> TokenizerFolder::read(const fs::path& folder) {
    try {
        return FolderReader(folder).read();
    } catch (const Error& error) {
        return Failure{error.code(), error.what()};
    }
}

std::optional<std::string> TokenizerFolder::special_token(std::string_view name) const {
    for (const auto& [key, text] : special_tokens)
        if (key == name) return text;
    return std::nullopt;
}

std::optional<int32_t> TokenizerFolder::special_token_id(std::string_view name) const {
    const auto text = special_token(name);
    return text ? tokenizer.id_of(*text) : std::nullopt;
}

std::optional<std::string> TokenizerFolder::chat_template(bool with_tools) const {
    for (const char* const name : {"tool_use", "default"}) {
        if (std::string_view(name) == "tool_use" && !with_tools) continue;
        if (const auto found = chat_templates.find(name); found != chat_templates.end())
            return found->second;
    }
    return std::nullopt;
}

}  // namespace ringshard::text
