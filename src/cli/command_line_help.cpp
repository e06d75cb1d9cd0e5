#include <iostream>

#include "ringshard/base/text.hpp"
#include "ringshard/cli/front_commands.hpp"
#include "ringshard/cli/tell.hpp"
#include "ringshard/config/option_table.hpp"

namespace ringshard::cli {

namespace {

using config::Option;
using config::OptionTable;
using config::Treatment;

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

void print_option(const Option& option) {
    std::cout << "  --" << option.name << ' ' << value_shown(option);
    if (option.default_text != "null") std::cout << "  (" << option.default_text << ')';
    std::cout << "\n      " << option.help << '\n';
}

// A group by its name in any case: "data", "Precision and memory", "precision".
bool is_named(const std::string& group, const std::string& topic) {
    return lower_case(group).starts_with(lower_case(topic));
}

void print_group(const OptionTable& table, const std::string& group) {
    std::string heading = group + "\n";
    for (const Option& option : table.options()) {
        if (option.group != group || option.treatment != Treatment::served) continue;
        std::cout << heading;
        heading.clear();
        print_option(option);
    }
    if (heading.empty()) std::cout << '\n';
}

void print_foreign(const OptionTable& table) {
    std::cout << "Accepted, because something else does their work\n";
    for (const Option& option : table.options())
        if (option.treatment == Treatment::accepted)
            std::cout << "  --" << option.name << ": " << option.reason << '\n';
    std::cout << "\nNot served\n";
    for (const Option& option : table.options())
        if (option.treatment == Treatment::refused)
            std::cout << "  --" << option.name << ": " << option.reason << '\n';
    std::cout << "\nOther names\n";
    for (const config::Alias& alias : table.aliases())
        std::cout << "  --" << alias.name << ": " << alias.target << '\n';
}

constexpr std::string_view usual_options[] = {"profile",         "cp_size",    "sp_size",
                                              "max_length",      "packing",    "learning_rate",
                                              "mixed_precision", "output_dir", "device"};

}  // namespace

int print_help(const Invocation& invocation) {
    const OptionTable table;
    if (invocation.help_topic.empty()) {
        std::cout << "trainer: supervised fine-tuning on SLURM clusters, at any sequence length\n\n"
                     "  srun ./trainer COMMAND --setting value ...\n"
                     "  mpirun -n 4 ./trainer COMMAND --setting value ...\n\nCommands\n";
        for (const CommandSummary& command : commands())
            std::cout << "  " << command.name << std::string(12 - command.name.size(), ' ')
                      << command.summary << '\n';
        std::cout << "\nUsual settings (names, meaning and defaults are TRL's)\n";
        for (const auto name : usual_options) print_option(*table.find(name));
        std::cout << "\nGroups, for --help GROUP:";
        for (const std::string& group : table.groups())
            if (group != "Launcher" && group != "Not served")
                std::cout << ' ' << lower_case(split(group, ' ').front());
        std::cout << "; --help all shows everything.\n"
                     "Settings come from defaults, --profile, --config FILE, RINGSHARD_<NAME> and "
                     "flags; later ones win.\n";
        return number(ExitCode::done);
    }
    bool found = false;
    for (const std::string& group : table.groups()) {
        if (invocation.help_topic != "all" && !is_named(group, invocation.help_topic)) continue;
        found = true;
        print_group(table, group);
    }
    if (invocation.help_topic == "all") print_foreign(table);
    if (found) return number(ExitCode::done);
    if (const Option* option = table.find(invocation.help_topic)) {
        print_option(*option);
        if (!option->reason.empty()) std::cout << "      " << option->reason << '\n';
        return number(ExitCode::done);
    }
    return tell(
        {ExitCode::usage, concat("there is no group or setting '", invocation.help_topic,
                                 "'; groups are ", lower_case(join(table.groups(), ", ")))});
}

}  // namespace ringshard::cli
