#pragma once

#include "ringshard/comm/agree.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/run/cpu_gemm.hpp"
#include "ringshard/run/job_proof.hpp"
#include "ringshard/run/placement.hpp"

namespace ringshard::run {

struct RecordedRun {
    int64_t attempt;
    int64_t num_steps;
    const ChosenGemms& gemms;
    const std::optional<Certificate>& certificate;  // on rank 0; none: the job was not proved
};

// output_dir/run.json, the configuration of this attempt, for people and for tools: settings with
// their origins, versions, mesh, hosts. Collective over the world.
std::optional<comm::AgreedFailure> write_run_record(const CommandContext& context,
                                                    const Placement& placement,
                                                    const model::ModelSpec& spec,
                                                    const RecordedRun& run);

}  // namespace ringshard::run
