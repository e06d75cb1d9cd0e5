#include <iostream>

#include "engine_commands.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/data/choose_data.hpp"
#include "ringshard/data/show_rows.hpp"

namespace ringshard::cli {

int run_inspect_rows(const run::CommandContext& context) {
    const comm::Group& world = context.world;
    const config::Config& config = context.settings.values;
    if (world.is_root())
        for (const std::string& note : context.notes) std::cerr << "note: " << note << '\n';
    const HubCache hub(context.environment);
    const auto preparation = comm::agreed(world, data::training_data(config, hub));
    if (!preparation) return report_failure(preparation.failure(), world);
    const auto shown = data::show_rows(preparation.value(), hub, world, config.data.inspect_rows);
    if (!shown) return report_failure(shown.failure(), world);
    bool is_wrong = false;
    for (const data::ShownRow& row : shown.value()) {
        std::cout << row.place << "\n  before  " << to_json(row.before) << "\n  "
                  << (row.wrong.empty() ? "after   " + to_json(row.after) : "wrong   " + row.wrong)
                  << '\n';
        is_wrong = is_wrong || !row.wrong.empty();
    }
    return number(is_wrong ? ExitCode::bad_data : ExitCode::done);
}

}  // namespace ringshard::cli
