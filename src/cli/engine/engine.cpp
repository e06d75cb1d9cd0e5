#include "ringshard/cli/engine.hpp"

#include "engine_commands.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/ops/vector_math.hpp"
#include "version.hpp"

// What the front finds with dlsym().
extern "C" const char* ringshard_engine_version() { return ringshard::version::program.data(); }

extern "C" int ringshard_engine(const ringshard::run::CommandContext& context) {
    using namespace ringshard;
    ops::resolve_vector_math();
    if (context.command == "doctor") return cli::run_doctor(context);
    if (context.command == "export") return cli::run_export(context);
    if (context.command == "init") return cli::run_init(context);
    if (context.command == "inspect_rows") return cli::run_inspect_rows(context);
    if (context.command == "prepare") return cli::run_prepare(context);
    if (context.command == "prove") return cli::run_prove(context);
    if (context.command == "score") return cli::run_score(context);
    if (context.command == "train" || context.command == "fork") return cli::run_train(context);
    if (context.command == "verify") return cli::run_verify(context);
    RINGSHARD_CHECK(false, "the engine has no command {}", context.command);
}

extern "C" int ringshard_plan(const ringshard::cli::PlanContext& context) {
    ringshard::ops::resolve_vector_math();
    return ringshard::cli::run_plan(context);
}
