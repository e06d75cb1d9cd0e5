#pragma once

#include <map>
#include <string>

#include "ringshard/cli/engine.hpp"
#include "ringshard/comm/agree.hpp"

namespace ringshard::cli {

// Puts the chat template, the tokens and the end of a sequence that the settings name
// (chat_template_path, added_tokens, eos_token) into the files of the model, content by name, on
// rank 0: who loads the model talks to it as it was taught, and stops where it stops. Collective
// over the world.
std::optional<comm::AgreedFailure> adopt_text(const EngineCall& call,
                                              std::map<std::string, std::string>& files);

}  // namespace ringshard::cli
