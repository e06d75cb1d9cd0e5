#include "ringshard/run/train.hpp"

#include "engine_commands.hpp"
#include "run_command.hpp"

namespace ringshard::cli {

int run_train(const run::CommandContext& context) { return run_command(context, run::train); }

}  // namespace ringshard::cli
