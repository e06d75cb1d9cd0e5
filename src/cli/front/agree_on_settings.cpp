#include "ringshard/cli/agree_on_settings.hpp"

#include <nlohmann/json.hpp>

#include "ringshard/config/resolve.hpp"

namespace ringshard::cli {

using nlohmann::json;

comm::Agreed<AgreedSettings> agree_on_settings(const comm::Group& world,
                                               const Invocation& invocation,
                                               const Environment& environment) {
    const config::OptionTable table;
    json letter;
    if (world.is_root()) {
        const config::Resolution resolution = config::resolve(table, invocation.flags, environment);
        letter["settings"] = resolution.settings.to_text();
        letter["notes"] = resolution.notes;
        if (!resolution.problems.empty()) {
            const Failure failure = config::summary(resolution.problems);
            letter["failure"] = {static_cast<int>(failure.code), failure.message};
        }
    }
    letter =
        json::parse(world.broadcast(letter.dump(-1, ' ', false, json::error_handler_t::replace)));
    if (letter.contains("failure"))
        return comm::found_by_all(
            {static_cast<ExitCode>(letter["failure"][0].get<int>()), letter["failure"][1]});
    return AgreedSettings{config::Settings::from_text(letter["settings"], table), letter["notes"]};
}

}  // namespace ringshard::cli
