#include "engine_commands.hpp"

#include <iostream>

#include "ringshard/cli/report_failure.hpp"
#include "ringshard/model/random_model.hpp"

namespace ringshard::cli {

int run_init(const CommandContext& context) {
    const config::Config& config = context.settings.values;
    std::optional<Failure> failure;
    if (config.model.config_json.empty())
        failure = Failure{ExitCode::settings,
                          "config_json is not set: name the config.json of the model to make"};
    else if (!context.settings.is_fixed("output_dir"))
        failure =
            Failure{ExitCode::settings, "output_dir is not set: name the folder for the model"};
    else if (context.world.is_root())
        failure = model::write_random_model(config.model.config_json, config.run.output_dir,
                                            config.run.seed);
    if (const auto agreed = comm::first_failure(context.world, failure))
        return report_failure(*agreed, context.world);
    if (context.world.is_root())
        std::cout << "wrote " << config.run.output_dir << ": a model with random weights\n";
    return number(ExitCode::done);
}

}  // namespace ringshard::cli
