#pragma once

#include <vector>

#include "ringshard/text/chat_template.hpp"

namespace ringshard::text {

// Returns where the words of each wanted message are in `rendered`, the rendering of the
// conversation: the part of it that changes when the message is replaced by one of the same role
// with other content, as axolotl's chat_template strategy finds turns. So a message's tool calls
// and reasoning are its words, and what the template puts around every message of that role is not.
// An empty range: the message is not wanted, or shows nothing.
Expected<std::vector<ByteRange>> find_message_spans(const ChatTemplate& chat_template,
                                                    const Conversation& conversation,
                                                    std::string_view rendered,
                                                    const std::vector<bool>& is_wanted);

}  // namespace ringshard::text
