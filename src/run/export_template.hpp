#pragma once

#include <map>
#include <string>

#include "ringshard/comm/agree.hpp"
#include "ringshard/run/command_context.hpp"

namespace ringshard::run {

// Writes the chat template, the added tokens and the end-of-sequence token of the settings
// (chat_template_path, added_tokens, eos_token) into the files of the exported model, content by
// name, on rank 0: inference then uses the format of the training. Collective over the world.
std::optional<comm::AgreedFailure> write_export_template(const CommandContext& context,
                                                         std::map<std::string, std::string>& files);

}  // namespace ringshard::run
