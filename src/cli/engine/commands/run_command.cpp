#include "run_command.hpp"

#include <c10/core/InferenceMode.h>

#include "ringshard/cli/report_failure.hpp"

namespace ringshard::cli {

int run_command(const run::CommandContext& context,
                std::optional<comm::AgreedFailure> (*command)(const run::CommandContext&)) {
    const c10::InferenceMode no_autograd;
    const auto failure = command(context);
    return failure ? report_failure(*failure, context.world) : number(ExitCode::done);
}

}  // namespace ringshard::cli
