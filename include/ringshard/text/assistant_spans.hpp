#pragma once

#include <vector>

#include "ringshard/text/chat_template.hpp"

namespace ringshard::text {

// Where the assistant's messages are in the rendering of a conversation, for templates that do not
// mark them: each is what comes between the rendering of the messages before it, with the
// generation prompt, and the rendering up to and with it. Fails where the rendering of a prefix is
// no prefix of the rendering: then the template treats earlier messages differently, and there is
// nothing to cut.
Expected<std::vector<ByteRange>> find_assistant_spans(const ChatTemplate& chat_template,
                                                      const Conversation& conversation);

}  // namespace ringshard::text
