#include "reference.hpp"

#include "ringshard/base/text.hpp"
#include "ringshard/config/deepspeed_fields.hpp"

namespace ringshard::cli {

using config::Option;
using config::OptionTable;
using config::Treatment;

namespace {

ReferenceEntry entry_of(const Option& option) {
    const std::string usual = option.default_text == "null" ? "" : option.default_text;
    return {option.name, value_shown(option), usual, option.help};
}

ReferenceEntry entry_of(const config::Alias& alias) {
    std::string text = alias.target;
    for (const auto& [value, meaning] : alias.values)
        if (!meaning.empty()) text += format_text("; {} means {}", value, meaning);
    return {alias.name, {}, {}, text};
}

ReferenceSection section_of(const OptionTable& table, const std::string& group) {
    ReferenceSection section{group, {}, {}};
    for (const Option& option : table.options())
        if (option.group == group && option.treatment == Treatment::served)
            section.entries.push_back(entry_of(option));
    return section;
}

std::string meaning_of(const config::DeepSpeedField& field) {
    const std::string text(field.text);
    switch (field.meaning) {
        case config::FieldMeaning::sets:
        case config::FieldMeaning::binds: return text;
        case config::FieldMeaning::idle: return "no effect: " + text;
        case config::FieldMeaning::refused: return "refused: " + text;
        case config::FieldMeaning::unless_enabled: return "refused where enabled: " + text;
    }
    return {};
}

ReferenceSection deepspeed_section() {
    ReferenceSection section{
        "JSON of DeepSpeed",
        "Fields of the JSON file that --deepspeed names, and the settings that they mean. Beside "
        "them: optimizer (Adam, AdamW or Lion) and scheduler (WarmupLR, WarmupDecayLR, "
        "WarmupCosineLR).",
        {}};
    for (const config::DeepSpeedField& field : config::deepspeed_fields())
        section.entries.push_back({std::string(field.name()), {}, {}, meaning_of(field), false});
    return section;
}

ReferenceSection foreign(const OptionTable& table, Treatment treatment, std::string title,
                         std::string about) {
    ReferenceSection section{std::move(title), std::move(about), {}};
    for (const Option& option : table.options())
        if (option.treatment == treatment)
            section.entries.push_back({option.name, {}, {}, option.reason});
    return section;
}

}  // namespace

std::string ReferenceSection::topic() const { return lower_case(split(title, ' ').front()); }

std::vector<ReferenceSection> settings_reference(const OptionTable& table) {
    std::vector<ReferenceSection> sections;
    for (const std::string& group : table.groups()) {
        ReferenceSection section = section_of(table, group);
        if (!section.entries.empty()) sections.push_back(std::move(section));
    }
    ReferenceSection blocks{
        "Blocks",
        "Settings that hold others: a mapping in a file; on a command line JSON, or a file of it.",
        {}};
    for (const config::Block& block : table.blocks())
        blocks.entries.push_back({block.name, {}, {}, block.help});
    sections.push_back(std::move(blocks));
    ReferenceSection others{"Other names", "Each is followed by the setting that it means.", {}};
    for (const config::Alias& alias : table.aliases()) others.entries.push_back(entry_of(alias));
    sections.push_back(std::move(others));
    sections.push_back(foreign(table, Treatment::accepted, "Accepted",
                               "Known from TRL, Accelerate or DeepSpeed; here something else does "
                               "their work."));
    sections.push_back(foreign(table, Treatment::refused, "Refused",
                               "Known from there, and not served: only a value that asks for "
                               "nothing may be given."));
    sections.push_back(deepspeed_section());
    return sections;
}

std::string value_shown(const Option& option) {
    if (!option.choices.empty()) return join(option.choices, "|");
    switch (option.shape) {
        case config::Shape::boolean: return "[true|false]";
        case config::Shape::integer: return "N";
        case config::Shape::number: return "X";
        case config::Shape::list: return "A B ...";
        case config::Shape::json: return "JSON";
        case config::Shape::word: return "TEXT";
    }
    return {};
}

std::string wrapped(const std::string& text, size_t indent, size_t first_column) {
    constexpr size_t width = 80;
    std::string out;
    size_t column = first_column;
    for (const std::string& word : split(text, ' ')) {
        const bool begins = out.empty();
        if (!begins && column + 1 + word.size() > width) {
            out += "\n" + std::string(indent, ' ');
            column = indent;
        } else if (!begins) {
            out += ' ';
            ++column;
        }
        out += word;
        column += word.size();
    }
    return out;
}

}  // namespace ringshard::cli
