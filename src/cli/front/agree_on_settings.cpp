#include "ringshard/cli/agree_on_settings.hpp"

#include <nlohmann/json.hpp>

#include "fork.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/config/resolve.hpp"

namespace ringshard::cli {

using nlohmann::json;

comm::Agreed<AgreedSettings> agree_on_settings(const comm::Group& world,
                                               const Invocation& invocation,
                                               const Environment& environment) {
    const config::OptionTable table;
    json message;
    if (world.is_root()) {
        const config::Resolution resolution =
            invocation.command == "fork" ? resolve_fork(table, invocation, environment)
                                         : config::resolve(table, invocation.flags, environment);
        message["settings"] = resolution.settings.on_ranks(world.size(), table).to_text();
        message["notes"] = resolution.notes;
        if (!resolution.problems.empty()) {
            const Failure failure = config::summary(resolution.problems);
            message["failure"] = {static_cast<int>(failure.code), failure.message};
        }
    }
    const std::string sent = message.dump(-1, ' ', false, json::error_handler_t::replace);
    message = parse_json<json>(world.broadcast(sent)).value();
    if (message.contains("failure"))
        return comm::found_by_all(
            {static_cast<ExitCode>(message["failure"][0].get<int>()), message["failure"][1]});
    return AgreedSettings{config::Settings::from_text(message["settings"], table),
                          message["notes"]};
}

}  // namespace ringshard::cli
