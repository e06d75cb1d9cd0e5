#include "engine_commands.hpp"

#include <iostream>

#include "ringshard/cli/report_failure.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/hub/random_model.hpp"
#include "ringshard/model/config_fields.hpp"
#include "ringshard/model/model_spec.hpp"

namespace ringshard::cli {

namespace {

void tell_result(const config::Config& config) {
    const std::string warning = model::warn_of_unknown_fields(config.model.config_json);
    if (!warning.empty()) std::cerr << "warning: " << warning << '\n';
    const auto spec = model::read_model_spec(config.model.config_json);
    std::cout << "wrote " << config.run.output_dir << ": a model with random weights"
              << (spec && spec.value().is_wrapped
                      ? ", of the text model alone; transformers makes the other tensors (of a "
                        "vision tower) at random whenever it loads the folder"
                      : "")
              << '\n';
}

}  // namespace

int run_init(const run::CommandContext& context) {
    const config::Config& config = context.settings.values;
    std::optional<Failure> failure;
    if (config.model.config_json.empty())
        failure = Failure{ExitCode::settings,
                          "config_json is not set: name the config.json of the model to make"};
    else if (!context.settings.is_fixed("output_dir"))
        failure =
            Failure{ExitCode::settings, "output_dir is not set: name the folder for the model"};
    else if (context.world.is_root())
        failure = hub::write_random_model(config.model.config_json, config.run.output_dir,
                                          config.run.seed);
    if (const auto agreed = comm::first_failure(context.world, failure))
        return report_failure(*agreed, context.world);
    if (context.world.is_root()) tell_result(config);
    return number(ExitCode::done);
}

}  // namespace ringshard::cli
