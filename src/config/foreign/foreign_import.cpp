#include "foreign_import.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "../value_text.hpp"
#include "../yaml_value.hpp"
#include "reasons.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

// What a command in a shell script adds to any trainer's keys.
constexpr ForeignKey command_keys[] = {
    {"command", KeyMeaning::read},
    {"launcher", KeyMeaning::idle, reasons::launch},
};

}  // namespace

ForeignImport::ForeignImport(const OptionTable& table, const ForeignFile& file,
                             const ForeignTrainer& trainer, Problems& problems)
    : table_(table), file_(file), trainer_(trainer), problems_(problems), tables_(trainer.tables) {
    tables_.emplace_back(command_keys);
}

bool asks_for_nothing(const ordered_json& value) {
    if (value.is_structured()) return std::ranges::all_of(value, asks_for_nothing);
    if (value.is_number()) return value == 0;
    return value.is_null() || value == false || value == "" || value == "none";
}

std::string setting_text(const ordered_json& value) {
    if (value.is_string()) return value.get<std::string>();
    return value.dump();
}

const ordered_json& ForeignImport::at(const std::string& path) const {
    static const ordered_json nothing;
    const ordered_json* value = &file_.content;
    for (const std::string& part : split(path, '.')) {
        if (!value->is_object()) return nothing;
        const auto found = value->find(part);
        if (found == value->end()) return nothing;
        value = &*found;
    }
    return *value;
}

bool ForeignImport::is_on(const std::string& path) const {
    const ordered_json& value = at(path);
    return value == true || (value.is_string() && read_boolean(value.get<std::string>()) == true);
}

std::string ForeignImport::text(const std::string& path, const std::string& otherwise) const {
    return has(path) ? setting_text(at(path)) : otherwise;
}

double ForeignImport::number(const std::string& path, double otherwise) const {
    return read_number(text(path)).value_or(otherwise);
}

Origin ForeignImport::origin(const std::string& path) const {
    return {Strength::config_file, file_.place(path)};
}

void ForeignImport::set(const std::string& path, const std::string& setting,
                        const std::string& value) {
    told_.insert(path);
    result_.statements.push_back({path, value, origin(path), {}, setting, false});
}

void ForeignImport::set(const std::string& path, const std::string& setting,
                        const ordered_json& value) {
    set(path, setting, setting_text(value));
}

void ForeignImport::set_model_field(const std::string& path, const std::string& field,
                                    const ordered_json& value) {
    told_.insert(path);
    const Origin from = origin(path);
    result_.statements.push_back({field, setting_text(value), from, "model_init_kwargs"});
}

void ForeignImport::set_default(const std::string& setting, const std::string& value) {
    std::erase_if(result_.statements, [&](const Statement& earlier) {
        return earlier.origin.strength == Strength::imported_default && earlier.target == setting;
    });
    const Origin usual{Strength::imported_default, format_text("{}'s default", trainer_.name)};
    result_.statements.push_back({setting, value, usual, {}, setting, false});
}

void ForeignImport::note(const std::string& path, const std::string& text) {
    told_.insert(path);
    result_.notes.push_back(
        format_text("{} = {} [{}]: {}", path, this->text(path), file_.place(path), text));
}

void ForeignImport::set_of_four_bits(bool is_held, const std::string& path,
                                     const std::string& setting) {
    if (!has(path)) return;
    if (is_held)
        set(path, setting, at(path));
    else
        idle(path, "the base is not held in four bits");
}

void ForeignImport::idle(const std::string& path, std::string_view reason) {
    told_.insert(path);
    result_.idle.emplace_back(path, reason);
}

void ForeignImport::refuse(const std::string& path, std::string_view reason) {
    told_.insert(path);
    problems_.push_back(
        complaint({path, text(path), origin(path)}, format_text("is not served: {}", reason)));
}

void ForeignImport::refuse_beside(const std::string& path, const std::string& other) {
    if (asks_for_nothing(at(path)) || asks_for_nothing(at(other))) return;
    refuse(path,
           format_text("{} refuses it beside {}; leave one of them out", trainer_.name, other));
}

const ForeignKey* ForeignImport::find(const std::string& path) const {
    const ForeignKey* best = nullptr;
    for (const std::span<const ForeignKey> table : tables_) {
        for (const ForeignKey& key : table) {
            if (key.path == path) return &key;
            const bool covers = key.path.ends_with('*') &&
                                path.starts_with(key.path.substr(0, key.path.size() - 1));
            if (covers && (best == nullptr || key.path.size() > best->path.size())) best = &key;
        }
    }
    return best;
}

bool ForeignImport::is_block(const std::string& path) const {
    const std::string below = path + ".";
    const auto has_member = [&](std::span<const ForeignKey> table) {
        return std::ranges::any_of(
            table, [&](const ForeignKey& key) { return key.path.starts_with(below); });
    };
    return std::ranges::any_of(tables_, has_member);
}

void ForeignImport::walk(const std::string& path, const ordered_json& value) {
    if (value.is_null()) return;
    const ForeignKey* key = find(path);
    const bool is_mapping = value.is_object();
    if (key != nullptr && (!is_mapping || key->path == path || !is_block(path)))
        return take(*key, path, value);
    if (is_mapping && is_block(path)) {
        for (const auto& [name, member] : value.items()) walk(path + "." + name, member);
        return;
    }
    const bool is_known = table_.find(path) != nullptr || table_.find_alias(path) != nullptr ||
                          table_.find_block(path) != nullptr ||
                          table_.find_refused_family(path) != nullptr;
    if (!is_known) return report_unknown(path, value);
    result_.statements.push_back({path, setting_text(value), origin(path)});
}

namespace {

bool is_harmless(const ForeignKey& key, const std::string& value) {
    const std::vector<std::string> harmless = split(key.values, ';');
    return std::ranges::find(harmless, lower_case(value)) != harmless.end();
}

}  // namespace

void ForeignImport::take(const ForeignKey& key, const std::string& path,
                         const ordered_json& value) {
    const std::string written = setting_text(value);
    switch (key.meaning) {
        case KeyMeaning::read: read_.push_back(path); return;
        case KeyMeaning::idle: return idle(path, key.text);
        case KeyMeaning::refused:
            if (asks_for_nothing(value) || is_harmless(key, written))
                return idle(path, "it asks for what is done without it");
            return refuse(path, key.text);
        case KeyMeaning::sets: break;
    }
    std::string meaning = written;
    for (const std::string& pair : split(key.values, ';'))
        if (const size_t equals = pair.find('=');
            equals != std::string::npos && lower_case(written) == pair.substr(0, equals))
            meaning = pair.substr(equals + 1);
    if (meaning.empty() && !written.empty())
        return idle(path, "it asks for what is done without it");
    set(path, std::string(key.text), meaning);
}

void ForeignImport::report_unknown(const std::string& path, const ordered_json& value) {
    if (asks_for_nothing(value)) return idle(path, "it asks for nothing");
    std::vector<std::string> known = table_.all_names();
    for (const std::span<const ForeignKey> table : tables_)
        for (const ForeignKey& key : table) known.emplace_back(key.path);
    const std::string nearest = nearest_name(path, known);
    problems_.push_back(
        complaint({path, setting_text(value), origin(path)},
                  format_text("no key of {} that this program knows{}{}{}", trainer_.name,
                              nearest.empty() ? "" : "; did you mean ", nearest,
                              nearest.empty() ? "" : "?")));
}

// Names the keys that the trainer's function read without a word, so that none is silent.
void ForeignImport::report_silent() {
    for (const std::string& path : read_) {
        const auto below = told_.lower_bound(path);
        const bool is_told =
            below != told_.end() && (*below == path || below->starts_with(path + "."));
        if (!is_told && path != "command") idle(path, "the keys beside it take it into account");
    }
}

ImportedSettings ForeignImport::translate() {
    for (const ForeignDefault& usual : trainer_.defaults)
        set_default(std::string(usual.setting), std::string(usual.value));
    for (const std::string& path : file_.repeated)
        refuse(path, "the file has the key twice, with two values; leave one out");
    for (const auto& [name, value] : file_.content.items()) walk(name, value);
    try {
        trainer_.translate(*this);
    } catch (const nlohmann::json::exception& error) {
        problems_.push_back({ExitCode::settings,
                             format_text("{}: it, or a file that it names, has a value of a form "
                                         "that {} does not take: {}",
                                         file_.name, trainer_.name, error.what())});
    } catch (const YAML::Exception& error) {
        problems_.push_back(
            {ExitCode::settings,
             format_text("{}: a file that it names is no YAML: {}", file_.name, error.what())});
    }
    report_silent();
    result_.notes.insert(
        result_.notes.begin(),
        format_text("{}: read as a file of {}, with its defaults", file_.name, trainer_.name));
    return std::move(result_);
}

}  // namespace ringshard::config
