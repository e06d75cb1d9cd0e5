#include "init_command.hpp"

#include <iostream>

#include "ringshard/cli/tell.hpp"
#include "ringshard/model/random_model.hpp"

namespace ringshard::cli {

int run_init(const EngineCall& call) {
    const config::Config& config = call.settings.values;
    std::optional<Failure> failure;
    if (config.model.config_json.empty())
        failure = Failure{ExitCode::settings,
                          "config_json is not set: name the config.json of the model to make"};
    else if (!call.settings.is_fixed("output_dir"))
        failure =
            Failure{ExitCode::settings, "output_dir is not set: name the folder for the model"};
    else if (call.world.is_root())
        failure = model::write_random_model(config.model.config_json, config.run.output_dir,
                                            config.run.seed);
    if (const auto agreed = comm::first_failure(call.world, failure))
        return tell(*agreed, call.world);
    if (call.world.is_root())
        std::cout << "wrote " << config.run.output_dir << ": a model with random weights\n";
    return number(ExitCode::done);
}

}  // namespace ringshard::cli
