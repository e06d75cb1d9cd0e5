#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ringshard::text {

// Returns the chat template of Mistral's conversations, which tekken.json does not hold, for a
// version of tekken.json; nothing for a version whose form is not known here. Tokens equal those of
// mistral_common.
std::optional<std::string> tekken_chat_template(std::string_view version);

}  // namespace ringshard::text
