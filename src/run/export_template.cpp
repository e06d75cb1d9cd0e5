#include "export_template.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ringshard/base/parse_json.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/data/choose_data.hpp"
#include "ringshard/data/text_tools.hpp"
#include "ringshard/text/tokenizer_folder.hpp"

namespace ringshard::run {

namespace {

using nlohmann::ordered_json;

// A JSON file of the model that is edited. A file that is missing, or no object, stays as it is.
class EditedFile {
public:
    EditedFile(std::map<std::string, std::string>& files, const std::string& name)
        : file_(files.find(name)), is_there_(file_ != files.end()) {
        if (is_there_) json_ = json_or_null<ordered_json>(file_->second);
        is_there_ = is_there_ && json_.is_object();
    }
    ~EditedFile() {
        if (is_there_) file_->second = json_.dump(2) + "\n";
    }
    EditedFile(const EditedFile&) = delete;
    EditedFile& operator=(const EditedFile&) = delete;

    explicit operator bool() const { return is_there_; }
    ordered_json* operator->() { return &json_; }
    ordered_json& operator[](const char* key) { return json_[key]; }

private:
    std::map<std::string, std::string>::iterator file_;
    bool is_there_;
    ordered_json json_;
};

// As a list: a model may stop at several tokens.
std::vector<ordered_json> stops_of(const ordered_json& eos) {
    if (eos.is_array()) return eos.get<std::vector<ordered_json>>();
    return eos.is_null() ? std::vector<ordered_json>() : std::vector{eos};
}

void adopt_template(const std::string& source, std::map<std::string, std::string>& files) {
    files["chat_template.jinja"] = source;
    if (EditedFile tokenizer(files, "tokenizer_config.json"); tokenizer)
        tokenizer->erase("chat_template");
}

text::Value to_value(int64_t id, const text::AddedToken& token) {
    return text::Value(text::Value::Object{{"id", text::Value(id)},
                                           {"content", text::Value(token.content)},
                                           {"single_word", text::Value(token.single_word)},
                                           {"lstrip", text::Value(token.lstrip)},
                                           {"rstrip", text::Value(token.rstrip)},
                                           {"normalized", text::Value(token.normalized)},
                                           {"special", text::Value(token.special)}});
}

// Into tokenizer.json, and into tokenizer_config.json where that lists them too: transformers takes
// the one of them that has the list.
std::optional<Failure> adopt_tokens(const std::vector<std::pair<int32_t, text::AddedToken>>& tokens,
                                    std::map<std::string, std::string>& files) {
    if (tokens.empty()) return std::nullopt;
    if (!files.contains("tokenizer.json"))
        return Failure{ExitCode::settings,
                       format_text("tekken.json cannot hold the added token \"{}\": leave "
                                   "added_tokens and a chat_template_path with tokens of its own "
                                   "out, or give the model a tokenizer.json",
                                   tokens.front().second.content)};
    // text::Value keeps the order of the vocabulary and reads a large one quickly.
    auto tokenizer = text::read_json(files["tokenizer.json"]);
    if (!tokenizer)
        return Failure{ExitCode::bad_data,
                       format_text("tokenizer.json: is not JSON: {}", tokenizer.failure().message)};
    const text::Value* const there = tokenizer.value().find("added_tokens");
    text::Value::List list;
    if (there != nullptr && there->list() != nullptr) list = *there->list();
    for (const auto& [id, token] : tokens) list.push_back(to_value(id, token));
    tokenizer.value().set("added_tokens", text::Value(std::move(list)));
    files["tokenizer.json"] = to_json(tokenizer.value()) + "\n";

    EditedFile config(files, "tokenizer_config.json");
    if (!config || !config->contains("added_tokens_decoder")) return std::nullopt;
    for (const auto& [id, token] : tokens)
        config["added_tokens_decoder"][std::to_string(id)] = {
            {"content", token.content},         {"lstrip", token.lstrip},
            {"normalized", token.normalized},   {"rstrip", token.rstrip},
            {"single_word", token.single_word}, {"special", token.special}};
    return std::nullopt;
}

// As TRL and transformers do before they train: where the model stopped before, it may still stop,
// unless it takes the template of another.
void adopt_eos(const data::TextTools::Adopted::Token& eos,
               std::map<std::string, std::string>& files) {
    for (const auto* name : {"tokenizer_config.json", "special_tokens_map.json"})
        if (EditedFile file(files, name); file) file["eos_token"] = eos.text;
    EditedFile config(files, "config.json");
    EditedFile generation(files, "generation_config.json");
    const int64_t id = eos.id;
    if (eos.is_of_template) {
        if (config) config["eos_token_id"] = id;
        if (generation) generation["eos_token_id"] = id;
        return;
    }
    bool is_new = config && config->value("eos_token_id", ordered_json()) != id;
    std::vector<ordered_json> stops;
    if (generation) {
        stops = stops_of(generation->value("eos_token_id", ordered_json()));
        is_new = is_new || std::ranges::find(stops, ordered_json(id)) == stops.end();
    }
    if (!is_new) return;
    if (config) config["eos_token_id"] = id;
    stops.insert(stops.begin(), id);
    if (generation) generation["eos_token_id"] = stops;
}

// The template of a tokenizer that holds none in its files, such as a tekken.json.
std::optional<Failure> adopt_own_template(const config::Config& config,
                                          const Environment& environment,
                                          std::map<std::string, std::string>& files) {
    if (!files.contains("tekken.json") || files.contains("tokenizer.json")) return std::nullopt;
    for (const auto* name : {"chat_template.jinja", "chat_template.json", "tokenizer_config.json"})
        if (files.contains(name)) return std::nullopt;
    const auto format = data::format_settings(config, HubCache(environment));
    if (!format) return format.failure();
    const auto folder = text::TokenizerFolder::read(format.value().tokenizer);
    if (!folder) return folder.failure();
    if (const auto source = folder.value().chat_template(false))
        files["chat_template.jinja"] = *source;
    return std::nullopt;
}

}  // namespace

std::optional<comm::AgreedFailure> write_export_template(
    const CommandContext& context, std::map<std::string, std::string>& files) {
    const config::Config& config = context.settings.values;
    const bool is_asked_for = !config.model.chat_template_path.empty() ||
                              !config.model.eos_token.empty() || !config.model.added_tokens.empty();
    std::optional<Failure> failure;
    if (context.world.is_root()) failure = adopt_own_template(config, context.environment, files);
    if (!failure && is_asked_for && context.world.is_root()) {
        const auto format = data::format_settings(config, HubCache(context.environment));
        const auto tools =
            format ? data::TextTools::load(format.value(), data::TextTools::Template::if_there)
                   : Expected<data::TextTools>(format.failure());
        if (tools) {
            const data::TextTools::Adopted& adopted = tools.value().adopted();
            if (adopted.chat_template) adopt_template(*adopted.chat_template, files);
            if (adopted.eos) adopt_eos(*adopted.eos, files);
            failure = adopt_tokens(adopted.tokens, files);
        } else {
            failure = tools.failure();
        }
    }
    return comm::first_failure(context.world, failure);
}

}  // namespace ringshard::run
