#pragma once

#include "cpu_gemm.hpp"
#include "placement.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/model/model_spec.hpp"

namespace ringshard::cli {

// output_dir/run.json, the configuration of this attempt, for people and for tools: settings with
// their origins, versions, mesh, hosts. Collective over the world.
std::optional<comm::AgreedFailure> write_run_record(const CommandContext& context,
                                                    const Placement& placement,
                                                    const model::ModelSpec& spec, int64_t attempt,
                                                    int64_t num_steps, const ChosenGemms& gemms);

}  // namespace ringshard::cli
