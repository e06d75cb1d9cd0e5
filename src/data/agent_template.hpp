#pragma once

#include <memory>
#include <string>

#include "ringshard/data/text_tools.hpp"

namespace ringshard::data {

// Writes tools, tool calls and their results as texts of messages, for a chat template that knows
// none, in a form of ms-swift: hermes or react_en.
class AgentTemplate {
public:
    // of_model: has the chat template, whose default system text stands before tools where a
    // conversation has no system message.
    static Expected<AgentTemplate> make(const std::string& form, const TextTools& of_model);

    // Returns the chat with texts alone. A call and the answer before it are one message; with
    // react_en the result of a call is in that message too, and has no targets.
    Expected<TextTools::Chat> apply(TextTools::Chat chat) const;

private:
    struct Form;
    class Writer;
    std::shared_ptr<const Form> form_;
};

}  // namespace ringshard::data
