#pragma once

#include <optional>
#include <string>

#include "ringshard/comm/agree.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/run/placed_job.hpp"
#include "ringshard/run/run_inputs.hpp"

namespace ringshard::run {

// The record of a proof that holds, in the output_dir of a run.
struct Certificate {
    std::string file;  // its name
    std::string hash;  // of its bytes, on rank 0
};

// Compares the mesh of the job with one rank on a small model, prints each check, and writes
// proof.json into output_dir. Fails (76) with the first check that does not hold, and (78) where
// there are several adapters. Collective over the world.
comm::Agreed<Certificate> prove_job(const CommandContext& context, PlacedJob& job,
                                    const model::ModelSpec& spec, const AskedAdapters& adapters);

// Proves the job of a run before it begins, if prove_in_job asks for it; does nothing where
// output_dir has the certificate of these settings, this mesh and this program. One rank has
// nothing to be compared with, and no certificate. Collective over the world.
comm::Agreed<std::optional<Certificate>> prove_in_job(const CommandContext& context, PlacedJob& job,
                                                      const RunInputs& inputs);

}  // namespace ringshard::run
