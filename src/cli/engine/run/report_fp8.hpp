#pragma once

#include "ringshard/cli/engine.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/model/model_spec.hpp"

namespace ringshard::cli {

// Prints which products of a run with `mixed_precision fp8` are in FP8: from rank 0, to stderr.
// Fails if the model has none. Every rank calls it.
std::optional<comm::AgreedFailure> report_fp8(const CommandContext& context,
                                              const model::ModelSpec& spec);

}  // namespace ringshard::cli
