#include "ringshard/cli/invocation.hpp"

#include "ringshard/base/text.hpp"
#include "ringshard/cli/commands.hpp"

namespace ringshard::cli {

Expected<Invocation> read_invocation(const std::vector<std::string>& arguments) {
    Invocation invocation;
    invocation.flags = arguments;
    if (!arguments.empty() && !arguments.front().starts_with("-")) {
        invocation.command = arguments.front();
        invocation.flags.erase(invocation.flags.begin());
        if (invocation.command == "sft") invocation.command = "train";
        const bool names_checkpoint = invocation.command == "export" && !invocation.flags.empty() &&
                                      !invocation.flags.front().starts_with("-");
        if (names_checkpoint) invocation.flags.insert(invocation.flags.begin(), "--checkpoint");
        if (find_command(invocation.command) == nullptr) {
            std::vector<std::string> names;
            for (const Command& command : commands()) names.push_back(command.name);
            const std::string nearest = nearest_name(invocation.command, names);
            return Failure{ExitCode::usage,
                           concat("there is no command '", invocation.command, "'",
                                  nearest.empty() ? "." : concat("; did you mean ", nearest, "?"),
                                  " The commands are ", join(names, ", "),
                                  ". Settings are written as --name value.")};
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
