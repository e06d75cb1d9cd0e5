#pragma once

#include "loss_scale.hpp"
#include "message_loss.hpp"

namespace ringshard::data {

// Chooses the targets of a conversation, and their weights: by message, by the parts of messages
// that have none, and by the rules of loss_scale (null without the setting). The labels of the row
// are its tokens before. Returns true if it found a reasoning marker. Fails if no token is learned.
Expected<bool> choose_chat_targets(const RenderedChat& row, std::span<const MessageMarks> marks,
                                   const FormatSettings& settings, const LossScale* scale,
                                   const TextTools& tools, EncodedRow& into);

}  // namespace ringshard::data
