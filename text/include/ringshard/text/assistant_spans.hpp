#pragma once

#include <vector>

#include "ringshard/text/chat_template.hpp"

namespace ringshard::text {

// Finds the assistant's messages in a rendered conversation, for templates that do not mark them:
// each is the difference between the rendering of the messages before it, with the generation
// prompt, and the rendering that includes it. Fails if the rendering of a prefix is not a prefix of
// the whole rendering: then the template renders earlier messages differently.
Expected<std::vector<ByteRange>> find_assistant_spans(const ChatTemplate& chat_template,
                                                      const Conversation& conversation);

}  // namespace ringshard::text
