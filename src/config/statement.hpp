#pragma once

#include <string>
#include <vector>

#include "ringshard/base/exit_code.hpp"
#include "ringshard/base/shown.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/config/settings.hpp"

namespace ringshard::config {

// One setting as the user wrote it: a flag, a line of a file, a variable. Not yet interpreted.
struct Statement {
    std::string name;
    std::string text;
    Origin origin;
    std::string block{};   // such as `fsdp_config`; empty at the top level
    std::string target{};  // the setting or alias that it sets, if not `name`
    bool binds = false;    // a stronger source may not give another value
};

using Statements = std::vector<Statement>;

// --config and --from_shell name a file of settings; they are no settings themselves.
inline bool names_settings_file(const Statement& statement) {
    return statement.name == "config" || statement.name == "from_shell";
}

using Problems = std::vector<Failure>;

// Formats "learning_rate = fast [command line]: must be a number".
inline Failure complaint(const Statement& about, const std::string& rule,
                         ExitCode code = ExitCode::settings) {
    return {code, format_text("{} = {} [{}]: {}", about.name, shown(about.text), about.origin.place,
                              rule)};
}

}  // namespace ringshard::config
