#pragma once

#include <map>
#include <memory>
#include <optional>

#include "ringshard/base/hub_cache.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/data/prompts.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/run/command_context.hpp"

namespace ringshard::run {

// The prompts that evaluations go on from.
struct EvalPrompts {
    std::vector<data::Prompt> prompts;
    std::shared_ptr<const data::TextTools> tools;  // on rank 0
};

// Reads the file that eval_prompts names, if it names one. Rank 0 reads it, with the tokenizer.
// Collective over the world.
comm::Agreed<std::optional<EvalPrompts>> read_eval_prompts(const CommandContext& context,
                                                           const HubCache& hub,
                                                           const model::ModelSpec& spec);

// Returns the tokens at which the written model ends a text, as transformers finds them: those of
// generation_config.json, else of config.json. `sidecar_files`: on rank 0. Collective over the
// world.
std::vector<int32_t> find_end_tokens(const std::map<std::string, std::string>& sidecar_files,
                                     const comm::Group& world);

}  // namespace ringshard::run
