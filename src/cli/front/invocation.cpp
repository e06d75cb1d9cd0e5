#include "ringshard/cli/invocation.hpp"

#include <algorithm>
#include <array>

#include "commands.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::cli {

namespace {

// TRL's commands for other methods than supervised fine-tuning.
bool is_other_method(const std::string& word) {
    static constexpr std::array methods{"grpo",       "rloo", "orpo", "ppo",     "gkd",
                                        "online_dpo", "xpo",  "prm",  "nash_md", "bco"};
    return std::ranges::find(methods, word) != methods.end();
}

// Returns true if the flags name a dataset by a setting, in place of a path.
bool names_dataset(const std::vector<std::string>& flags) {
    static constexpr std::array names{"--dataset_name", "--datasets", "--dataset_mixture",
                                      "--config", "--from_shell"};
    return std::ranges::any_of(flags, [](const std::string& flag) {
        return std::ranges::any_of(names, [&](const char* name) {
            return flag == name || flag.starts_with(std::string(name) + "=");
        });
    });
}

Failure no_command(const std::string& word) {
    if (is_other_method(word))
        return {ExitCode::usage,
                format_text("there is no command '{}': this program does supervised fine-tuning, "
                            "with `trainer sft`, DPO, CPO, KTO and reward models, with `trainer "
                            "dpo`, `cpo`, `kto` and `reward`; use TRL for {}",
                            word, word)};
    std::vector<std::string> names;
    for (const Command& command : commands()) names.push_back(command.name);
    const std::string nearest = nearest_name(word, names);
    return {
        ExitCode::usage,
        format_text(
            "there is no command '{}'{} The commands are {}. Settings are written as --name value.",
            word, nearest.empty() ? "." : format_text("; did you mean {}?", nearest),
            join(names, ", "))};
}

}  // namespace

Expected<Invocation> read_invocation(const std::vector<std::string>& arguments) {
    Invocation invocation;
    invocation.flags = arguments;
    if (!arguments.empty() && !arguments.front().starts_with("-")) {
        invocation.command = arguments.front();
        invocation.flags.erase(invocation.flags.begin());
        if (invocation.command == "sft") invocation.command = "train";
        const bool names_checkpoint =
            (invocation.command == "export" ||
             (invocation.command == "verify" && !invocation.names_server())) &&
            !invocation.flags.empty() && !invocation.flags.front().starts_with("-");
        if (names_checkpoint) invocation.flags.insert(invocation.flags.begin(), "--checkpoint");
        if (find_command(invocation.command) == nullptr) return no_command(invocation.command);
        if (invocation.command == "inspect" && names_dataset(invocation.flags)) {
            invocation.command = "inspect_rows";  // the engine reads files of rows
            std::ranges::replace(invocation.flags, "--rows", "--inspect_rows");
        }
    }
    for (auto flag = invocation.flags.begin(); flag != invocation.flags.end(); ++flag) {
        const bool is_help = *flag == "--help" || *flag == "-h" || flag->starts_with("--help=");
        if (!is_help) continue;
        invocation.wants_help = true;
        if (flag->starts_with("--help=")) invocation.help_topic = flag->substr(7);
        if (*flag == "--help" && flag + 1 != invocation.flags.end() &&
            !(flag + 1)->starts_with("-"))
            invocation.help_topic = *(flag + 1);
        break;
    }
    const Command* const command = find_command(invocation.command);
    if (command != nullptr && !command->method.empty() && !invocation.wants_help) {
        invocation.command = "train";
        invocation.flags.insert(invocation.flags.begin(), {"--method", command->method});
    }
    if (arguments.empty()) invocation.wants_help = true;
    if (arguments.size() == 1 && arguments.front() == "--version") invocation.command = "version";
    if (invocation.command == "help") {
        invocation.wants_help = true;
        const bool names_topic =
            !invocation.flags.empty() && !invocation.flags.front().starts_with("-");
        if (names_topic) invocation.help_topic = invocation.flags.front();
    }
    if (invocation.command.empty()) invocation.command = invocation.wants_help ? "help" : "train";
    return invocation;
}

}  // namespace ringshard::cli
