#include <map>

#include "commands.hpp"
#include "reference.hpp"
#include "reference_files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/config/resolve.hpp"

namespace ringshard::cli {

namespace {

using config::OptionTable;
using config::Shape;

std::string names_of_commands() {
    std::vector<std::string> names{"sft"};
    for (const Command& command : commands()) names.push_back(command.name);
    return join(names, " ");
}

std::string with_dashes(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names)
        out += format_text("{}--{}", out.empty() ? "" : " ", name);
    return out;
}

std::string served_names(const OptionTable& table) {
    std::vector<std::string> names;
    for (const config::Option& option : table.options())
        if (option.treatment == config::Treatment::served) names.push_back(option.name);
    names.emplace_back("config");
    return with_dashes(names);
}

// Names that mean a setting, or hold some.
std::string other_names(const OptionTable& table) {
    std::vector<std::string> names;
    for (const config::Alias& alias : table.aliases()) names.push_back(alias.name);
    for (const config::Block& block : table.blocks()) names.push_back(block.name);
    return with_dashes(names);
}

std::string help_topics(const OptionTable& table) {
    std::string topics = "all";
    for (const ReferenceSection& section : settings_reference(table))
        topics += " " + section.topic();
    return topics;
}

// Returns the words that a setting takes; "-" for a number.
std::string words_of(const config::Option& option) {
    if (option.name == "profile") return join(config::profile_names(), " ");
    if (!option.choices.empty()) return join(option.choices, " ");
    if (option.shape == Shape::boolean) return "true false";
    if (option.shape == Shape::integer || option.shape == Shape::number) return "-";
    return {};
}

// Branches of a case over the flag before the word: its values. Other flags take a file.
std::string value_branches(const OptionTable& table) {
    std::map<std::string, std::vector<std::string>> flags_by_words;
    for (const config::Option& option : table.options())
        if (const std::string words = words_of(option);
            !words.empty() && option.treatment == config::Treatment::served)
            flags_by_words[words].push_back("--" + option.name);
    for (const config::Alias& alias : table.aliases()) {
        const bool is_boolean = alias.shape == Shape::boolean;
        const std::string words = is_boolean ? "true false" : words_of(*table.find(alias.target));
        if (!words.empty() && (alias.values.empty() || is_boolean))
            flags_by_words[words].push_back("--" + alias.name);
    }
    std::string out;
    for (const auto& [words, flags] : flags_by_words)
        out += format_text("        {}) words=\"{}\" ;;\n", join(flags, "|"), words);
    return out;
}

// Branches of a case over the command: its own flags and first words.
std::string command_branches() {
    std::string out;
    for (const Command& command : commands()) {
        std::vector<std::string> flags;
        for (const CommandFlag& flag : command.flags) flags.push_back(flag.name);
        out += format_text("        {}) own=\"{}\" actions=\"{}\" takes_settings={} ;;\n",
                           command.name == "train" ? "train|sft" : command.name, join(flags, " "),
                           join(command.actions, " "),
                           command.settings == TakesSettings::yes ? "yes" : "no");
    }
    return out;
}

// The flags of commands that take one of a few words, or a number.
std::string command_value_branches() {
    std::string out;
    for (const Command& command : commands())
        for (const CommandFlag& flag : command.flags)
            if (!flag.choices.empty() || flag.value == "N")
                out += format_text("        \"{} {}\") words=\"{}\" ;;\n", command.name, flag.name,
                                   flag.value == "N" ? "-" : join(flag.choices, " "));
    return out;
}

constexpr std::string_view how_words_are_found = R"bash(
_trainer() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    # "--name=value" comes as three words.
    if [[ $word == "=" ]]; then
        word=""
    elif [[ $before == "=" ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    [[ $word == --* ]] && word=--$(_trainer_underscores "${word:2}")
    [[ $before == --* ]] && before=--$(_trainer_underscores "${before:2}")

    local command=${COMP_WORDS[1]}
    ((COMP_CWORD == 1)) || [[ $command == -* ]] && command=train
    local own="" actions="" takes_settings=yes words=""
    _trainer_command "$command"
    COMPREPLY=()

    if [[ $word == -* ]]; then
        local flags="$own --help"
        [[ $takes_settings == yes ]] && flags+=" $_trainer_settings"
        _trainer_offer "$flags" "$word"
        [[ ${#COMPREPLY[@]} -gt 0 || $takes_settings == no ]] || _trainer_offer "$_trainer_other_names" "$word"
        return
    fi
    if ((COMP_CWORD == 1)); then
        _trainer_offer "$_trainer_commands" "$word"
        return
    fi
    if [[ $before == --help || $command == help ]]; then
        _trainer_offer "$_trainer_topics $_trainer_commands" "$word"
        return
    fi
    if ((COMP_CWORD == 2)) && [[ -n $actions ]]; then
        _trainer_offer "$actions" "$word"
        return
    fi
    _trainer_values "$command" "$before"
    if [[ $words == - ]]; then
        compopt +o default 2>/dev/null # a number: no files
    elif [[ -n $words ]]; then
        _trainer_offer "$words" "$word"
    fi
}

_trainer_underscores() { printf '%s' "${1//-/_}"; }
_trainer_offer() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2"); }
complete -o default -F _trainer trainer
)bash";

}  // namespace

std::string bash_completion(const OptionTable& table) {
    return format_text(
        "# Completion of trainer's command line for bash 4.4 or newer; written by\n"
        "# `trainer help bash-completion`. To use it: source this file.\n"
        "_trainer_commands=\"{}\"\n"
        "_trainer_topics=\"{}\"\n"
        "_trainer_settings=\"{}\"\n"
        "_trainer_other_names=\"{}\"\n\n"
        "# What a command takes beside settings.\n"
        "_trainer_command() {{\n"
        "    case $1 in\n"
        "{}    esac\n"
        "}}\n\n"
        "# Which words a flag takes; \"-\" for a number.\n"
        "_trainer_values() {{\n"
        "    case \"$1 $2\" in\n"
        "{}    esac\n"
        "    [[ -z $words && $takes_settings == yes ]] || return 0\n"
        "    case $2 in\n"
        "{}    esac\n"
        "}}\n"
        "{}",
        names_of_commands(), help_topics(table), served_names(table), other_names(table),
        command_branches(), command_value_branches(), value_branches(table), how_words_are_found);
}

}  // namespace ringshard::cli
