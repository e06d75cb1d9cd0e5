#include <algorithm>
#include <iostream>

#include "commands.hpp"
#include "reference.hpp"
#include "reference_files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/cli/front_commands.hpp"
#include "ringshard/cli/report_failure.hpp"

namespace ringshard::cli {

namespace {

using config::OptionTable;
using Reference = std::vector<ReferenceSection>;

// A name in a column, and its meaning beside it.
void print_line(const std::string& name, const std::string& text, size_t column) {
    const size_t used = std::max(name.size() + 4, column);
    std::cout << "  " << name << std::string(used - 2 - name.size(), ' ')
              << wrapped(text, column, used) << '\n';
}

void print_entry(const ReferenceEntry& entry) {
    const std::string name = entry.shown();
    if (entry.value.empty()) {
        std::cout << "  " << name << ": " << wrapped(entry.text, 6, name.size() + 4) << '\n';
        return;
    }
    std::cout << "  " << name << ' ' << entry.value;
    if (!entry.usual.empty()) std::cout << "  (" << entry.usual << ')';
    std::cout << "\n      " << wrapped(entry.text, 6, 6) << '\n';
}

void print_section(const ReferenceSection& section) {
    std::cout << section.title << '\n';
    if (!section.about.empty()) std::cout << wrapped(section.about, 0, 0) << '\n';
    for (const ReferenceEntry& entry : section.entries) print_entry(entry);
}

std::string topics_of(const Reference& reference) {
    std::vector<std::string> topics;
    for (const ReferenceSection& section : reference) topics.push_back(section.topic());
    return join(topics, ", ");
}

void print_more(const std::string& command, const Reference& reference) {
    std::cout << "\nMore: "
              << wrapped(
                     format_text("{} --help GROUP, for GROUP one of {}; --help SETTING; --help all",
                                 command, topics_of(reference)),
                     6, 6)
              << "\nA setting comes from its default, --profile, --config FILE, "
                 "RINGSHARD_<NAME> or\na flag; the last one of these that says it counts.\n";
}

void print_overview(const Reference& reference) {
    constexpr size_t column = 13;
    std::cout << "trainer: supervised fine-tuning on SLURM clusters, at any sequence length\n"
                 "  srun ./trainer [COMMAND] --setting value ...    (or mpirun -n 4 ...)\n";
    std::vector<std::string> methods;
    for (const Command& command : commands())
        if (!command.method.empty()) methods.push_back(command.name);
    for (const Command& command : commands()) {
        const bool is_method = !command.method.empty();
        if (is_method && command.name == methods.front())
            print_line(join(methods, ", "), "learn answers, labels or embeddings", column);
        if (!is_method && command.name != "help") print_line(command.name, command.summary, column);
    }
    std::cout << "More: "
              << wrapped(format_text("trainer COMMAND --help; --help SETTING; --help all; --help "
                                     "GROUP: {}",
                                     topics_of(reference)),
                         6, 6)
              << '\n';
}

void print_flags(const Command& command) {
    const auto shown = [](const CommandFlag& flag) {
        return flag.value.empty() ? flag.name : flag.name + " " + flag.value;
    };
    size_t column = 0;
    for (const CommandFlag& flag : command.flags) column = std::max(column, shown(flag).size() + 4);
    if (column > 0) std::cout << '\n';
    for (const CommandFlag& flag : command.flags) print_line(shown(flag), flag.help, column);
}

void print_command(const Command& command, const OptionTable& table, const Reference& reference) {
    std::cout << "trainer " << command.name << ": " << command.summary << "\n\n";
    for (const std::string& usage : command.usage) std::cout << "  trainer " << usage << '\n';
    std::cout << '\n' << wrapped(command.about, 0, 0) << '\n';
    print_flags(command);
    if (command.settings == TakesSettings::no) return;
    std::cout << "\nUsual settings (names, meaning and defaults are TRL's)\n";
    constexpr size_t column = 24;
    for (const std::string& name : command.usual_settings) {
        const config::Option* option = table.find(name);
        const config::Block* block = table.find_block(name);
        print_line("--" + name, option != nullptr ? option->help : block->help, column);
    }
    print_more("trainer " + command.name, reference);
}

void print_all(const Reference& reference) {
    for (const Command& command : commands()) {
        std::cout << "trainer " << command.name << ": " << command.summary << '\n';
        print_flags(command);
        if (!command.flags.empty()) std::cout << '\n';
    }
    for (const ReferenceSection& section : reference) {
        std::cout << '\n';
        print_section(section);
    }
}

// A group by the beginning of its title, in any case: "data", "Precision and memory", "precision".
const ReferenceSection* find_section(const Reference& reference, const std::string& topic) {
    for (const ReferenceSection& section : reference)
        if (lower_case(section.title).starts_with(lower_case(topic))) return &section;
    return nullptr;
}

// Returns the description of a setting by any of its names; nullptr if there is none.
const ReferenceEntry* find_entry(const Reference& reference, const std::string& name) {
    for (const ReferenceSection& section : reference)
        for (const ReferenceEntry& entry : section.entries)
            if (entry.name == name) return &entry;
    return nullptr;
}

// As it is written on a command line: "--max-length" is max_length.
std::string setting_name(std::string topic) {
    while (topic.starts_with("-")) topic.erase(0, 1);
    std::ranges::replace(topic, '-', '_');
    return topic;
}

Failure no_such_topic(const Reference& reference, const OptionTable& table,
                      const std::string& topic) {
    std::vector<std::string> known = table.all_names();
    for (const ReferenceSection& section : reference) known.push_back(section.topic());
    const std::string nearest = nearest_name(setting_name(topic), known);
    return {
        ExitCode::usage,
        format_text(
            "there is no group or setting '{}'{} The groups are {}; --help all shows everything",
            topic, nearest.empty() ? "." : format_text("; did you mean {}?", nearest),
            topics_of(reference))};
}

}  // namespace

int print_help(const Invocation& invocation) {
    const OptionTable table;
    const Reference reference = settings_reference(table);
    const std::string& topic = invocation.help_topic;
    if (topic.empty() && invocation.command == "help") {
        print_overview(reference);
    } else if (topic.empty()) {
        print_command(*find_command(invocation.command), table, reference);
    } else if (topic == "all") {
        print_all(reference);
    } else if (invocation.command == "help" && is_reference_file(topic)) {
        std::cout << reference_file(topic, table);
    } else if (const Command* command = find_command(topic)) {
        print_command(*command, table, reference);
    } else if (const ReferenceSection* section = find_section(reference, topic)) {
        print_section(*section);
    } else if (const ReferenceEntry* entry = find_entry(reference, setting_name(topic))) {
        print_entry(*entry);
        if (const config::Alias* alias = table.find_alias(entry->name))
            print_entry(*find_entry(reference, alias->target));
    } else {
        return report_failure(no_such_topic(reference, table, topic));
    }
    return number(ExitCode::done);
}

}  // namespace ringshard::cli
