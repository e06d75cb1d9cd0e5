#pragma once

#include <string>
#include <vector>

namespace ringshard::cli {

// A flag of one command alone, which is no setting.
struct CommandFlag {
    std::string name;   // "--rows"
    std::string value;  // what it takes, "N"; empty: it stands alone
    std::string help;
    std::vector<std::string> choices{};
};

enum class TakesSettings { no, yes };

// Describes a command for help, the manual page and the completion of the shell.
struct Command {
    std::string name;
    std::string summary;             // a line of a list
    std::vector<std::string> usage;  // what stands after "trainer "
    std::string about;
    TakesSettings settings = TakesSettings::no;
    std::vector<CommandFlag> flags{};
    std::vector<std::string> usual_settings{};
    std::vector<std::string> actions{};  // words of which the first argument is one
    std::string method{};                // training with this method
};

const std::vector<Command>& commands();
const Command* find_command(const std::string& name);

}  // namespace ringshard::cli
