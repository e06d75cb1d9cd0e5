#pragma once

#include <vector>

#include "ringshard/text/chat_template.hpp"

namespace ringshard::text {

// Returns where `rendered`, the rendering of the conversation, holds the content of each wanted
// message: the part that changes if another message of the same role replaces the message, as in
// axolotl's chat_template strategy. So it includes a message's tool calls and reasoning, but not
// the template's text around every message of that role. Empty range: the message is not wanted, or
// the template does not show it.
Expected<std::vector<ByteRange>> find_message_spans(const ChatTemplate& chat_template,
                                                    const Conversation& conversation,
                                                    std::string_view rendered,
                                                    const std::vector<bool>& is_wanted);

}  // namespace ringshard::text
