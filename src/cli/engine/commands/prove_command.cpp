#include <algorithm>

#include "engine_commands.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/run/job_proof.hpp"
#include "run_command.hpp"

namespace ringshard::cli {

namespace {

using MaybeFailure = std::optional<comm::AgreedFailure>;

// Returns the fewest ranks on which the mesh has every axis that the settings name.
int64_t fewest_ranks(const config::ParallelSettings& parallel) {
    const int64_t sequence = parallel.cp_size.value_or(1) * parallel.sp_size.value_or(1);
    const int64_t copies =
        parallel.dp_replicate_size.value_or(1) * parallel.dp_shard_size.value_or(2);
    return std::max(sequence * copies, parallel.ep_size);
}

// One rank has nothing to be compared with.
MaybeFailure check_world(const run::CommandContext& context) {
    if (context.world.size() > 1) return std::nullopt;
    return comm::found_by_all(
        {ExitCode::settings,
         format_text("prove compares the mesh of a job with one rank, and there is one rank: start "
                     "it as the job with srun, or here with `mpirun --oversubscribe -n {} trainer "
                     "prove` and the same settings",
                     fewest_ranks(context.settings.values.parallel))});
}

MaybeFailure prove(const run::CommandContext& context) {
    if (auto failure = check_world(context)) return failure;
    const auto placed = run::PlacedJob::place(context);
    if (!placed) return placed.failure();
    run::PlacedJob& job = *placed.value();
    const auto found = run::find_model(context, HubCache(context.environment), job.placement);
    if (!found) return found.failure();
    const auto certificate =
        run::prove_job(context, job, found.value().spec, found.value().adapters);
    return certificate ? std::nullopt : MaybeFailure(certificate.failure());
}

}  // namespace

int run_prove(const run::CommandContext& context) { return run_command(context, prove); }

}  // namespace ringshard::cli
