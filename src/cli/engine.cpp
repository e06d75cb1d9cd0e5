#include "ringshard/cli/engine.hpp"

#include "doctor_command.hpp"
#include "export_command.hpp"
#include "init_command.hpp"
#include "plan_command.hpp"
#include "prepare_command.hpp"
#include "ringshard/base/error.hpp"
#include "score_command.hpp"
#include "train_command.hpp"

// The entry points that the front finds with dlsym().
extern "C" int ringshard_engine(const ringshard::cli::EngineCall& call) {
    using namespace ringshard;
    if (call.command == "doctor") return cli::run_doctor(call);
    if (call.command == "export") return cli::run_export(call);
    if (call.command == "init") return cli::run_init(call);
    if (call.command == "prepare") return cli::run_prepare(call);
    if (call.command == "score") return cli::run_score(call);
    if (call.command == "train") return cli::run_train(call);
    RINGSHARD_CHECK(false, "the engine has no command ", call.command);
}

extern "C" int ringshard_plan(const ringshard::cli::PlanCall& call) {
    return ringshard::cli::run_plan(call);
}
