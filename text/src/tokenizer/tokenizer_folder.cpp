#include "ringshard/text/tokenizer_folder.hpp"

#include "folder_files.hpp"
#include "folder_tokens.hpp"
#include "json_reader.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/shell_word.hpp"
#include "tekken.hpp"
#include "tekken_template.hpp"
#include "tokenizer_class.hpp"

namespace ringshard::text {

namespace {

namespace fs = std::filesystem;

// Reports a folder without tokenizer.json; names the files of a slow tokenizer if there are any.
Failure no_tokenizer_in(const fs::path& folder) {
    std::string found;
    for (const auto* name : {"tokenizer.model", "vocab.json", "vocab.txt"})
        if (found.empty() && file_exists(folder / name)) found = name;
    if (found.empty())
        return {ExitCode::missing_input,
                format_text("{}: holds no tokenizer.json (nor tekken.json)", folder.string())};
    return {
        ExitCode::bad_data,
        format_text(
            "{}: holds {}, and neither tokenizer.json nor tekken.json is there; write one: python "
            "-c \"import sys, transformers as t; a = sys.argv[1]; "
            "t.AutoTokenizer.from_pretrained(a).backend_tokenizer.save(a + '/tokenizer.json')\" {}",
            folder.string(), found, shell_word(folder.string()))};
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
        if (!content) return read_tekken_folder();
        const TokenizerClass chosen = choose(*content);
        auto templates = read_templates();
        FolderTokens tokens(folder_, config_, chosen, *content);
        RebuildSettings settings;
        const Value* const prefix = config_.find("add_prefix_space");
        if (prefix != nullptr && prefix->truth() != nullptr)
            settings.add_prefix_space = *prefix->truth();
        settings.legacy = is_true("legacy");
        TokenizerFolder result{
            .tokenizer = Tokenizer::from_json(*content, (folder_ / "tokenizer.json").string(),
                                              rebuilt_parts(chosen, settings))
                             .value(),
            .special_tokens = {},
            .extra_special_tokens = {},
            .chat_templates = std::move(templates)};
        tokens.add_to(result.tokenizer, chosen);
        for (const auto& [key, value] : tokens.by_name())
            result.special_tokens.emplace_back(key, text_of(value));
        for (const Special& value : tokens.extra())
            result.extra_special_tokens.push_back(text_of(value));
        return result;
    }

private:
    // Reads the folder of a model of Mistral that has tekken.json alone. A template in the folder
    // overrides the one of the file's version.
    TokenizerFolder read_tekken_folder() const {
        const fs::path file = folder_ / "tekken.json";
        const auto content = read_file(file);
        if (!content) throw Error(no_tokenizer_in(folder_));
        TokenizerFolder result{.tokenizer = Tokenizer::from_json(*content, file.string()).value(),
                               .special_tokens = {},
                               .extra_special_tokens = {},
                               .chat_templates = read_templates()};
        const Tekken tekken = read_tekken(read_json(*content).value());
        result.special_tokens = named_tokens(tekken);
        if (const auto source = tekken_chat_template(tekken.version);
            source && result.chat_templates.empty())
            result.chat_templates["default"] = *source;
        return result;
    }

    bool is_true(const char* key) const {
        const Value* const value = config_.find(key);
        return value != nullptr && value->truth() != nullptr && *value->truth();
    }

    void check_settings() const {
        for (const char* const key :
             {"split_special_tokens", "fix_mistral_regex",
              "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"})
            if (is_true(key))
                refuse(config_file_, format_text("\"{}\": true is not supported", key));
        if (config_.find("auto_map") != nullptr)
            refuse(config_file_,
                   "\"auto_map\": tokenizers with Python code of their own are not supported");
    }

    TokenizerClass choose(const std::string& content) const {
        const Value model = read_object(folder_ / "config.json");
        ClassClues clues;
        for (const Value* const source : {&config_, &model})
            if (const std::string* const name = text_in(*source, "tokenizer_class");
                name != nullptr && !clues.stated)
                clues.stated = *name;
        if (const std::string* const type = text_in(model, "model_type")) clues.model_type = *type;
        clues.mentions_byte_level = content.find("\"ByteLevel\"") != std::string::npos;
        const TokenizerClass chosen = choose_class(clues);
        if (!chosen.is_supported)
            refuse(config_file_,
                   format_text("\"tokenizer_class\" {} is not supported", chosen.name));
        return chosen;
    }

    // Folders of models for images and text may hold the template beside the tokenizer's files,
    // where transformers' processor reads it.
    std::map<std::string, std::string> read_template_of_processor() const {
        const fs::path file = folder_ / "chat_template.json";
        if (!exists(file)) return {};
        const Value content = read_object(file);
        const std::string* const text = text_in(content, "chat_template");
        if (text == nullptr) refuse(file, "\"chat_template\" is not a text");
        return {{"default", *text}};
    }

    std::map<std::string, std::string> read_templates() const {
        std::map<std::string, std::string> templates;
        if (exists(folder_ / "chat_template.jinja"))
            templates["default"] = read_text(folder_ / "chat_template.jinja");
        if (is_directory(folder_ / "additional_chat_templates"))
            for (const auto& entry : fs::directory_iterator(folder_ / "additional_chat_templates"))
                if (entry.path().extension() == ".jinja")
                    templates[entry.path().stem().string()] = read_text(entry.path());
        if (!templates.empty()) return templates;  // files override the setting
        const Value* const stated = find(config_, "chat_template");
        if (stated == nullptr) return read_template_of_processor();
        if (stated->string() != nullptr) {
            templates["default"] = *stated->string();
        } else if (stated->list() != nullptr) {
            for (const Value& each : *stated->list()) {
                const std::string* const name = text_in(each, "name");
                const std::string* const text = text_in(each, "template");
                if (name == nullptr || text == nullptr)
                    refuse(config_file_, "\"chat_template\" holds a template without name or text");
                templates[*name] = *text;
            }
        } else {
            refuse(config_file_, "\"chat_template\" is neither a text nor a list of templates");
        }
        return templates;
    }

    fs::path folder_;
    fs::path config_file_;
    Value config_;
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
