#pragma once

#include <optional>

#include "ringshard/run/run_data.hpp"

namespace ringshard::run {

// Lets batches have the prompt of a pair once, as share_prompts says, and reports it. Fails (78) if
// the command line or a file asks for it and ModelSpec::why_prompts_are_apart() says why not.
std::optional<Failure> share_prompts(const CommandContext& context, const model::ModelSpec& spec,
                                     RunData& data);

}  // namespace ringshard::run
