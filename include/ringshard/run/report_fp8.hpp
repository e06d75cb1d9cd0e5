#pragma once

#include "ringshard/comm/agree.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/run/command_context.hpp"

namespace ringshard::run {

// Prints which products of a run with `mixed_precision fp8` are in FP8: from rank 0, to stderr.
// Fails if the model has none. Every rank calls it.
std::optional<comm::AgreedFailure> report_fp8(const CommandContext& context,
                                              const model::ModelSpec& spec);

}  // namespace ringshard::run
