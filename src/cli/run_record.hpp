#pragma once

#include "ringshard/comm/agree.hpp"
#include "ringshard/model/model_spec.hpp"
#include "start_up.hpp"

namespace ringshard::cli {

// output_dir/run.json: what this attempt runs with, for people and for tools: settings with their
// origins, versions, mesh, hosts. Collective over the world.
std::optional<comm::AgreedFailure> write_run_record(const EngineCall& call, const StartUp& here,
                                                    const model::ModelSpec& spec, int64_t attempt,
                                                    int64_t num_steps, const std::string& gemms);

}  // namespace ringshard::cli
