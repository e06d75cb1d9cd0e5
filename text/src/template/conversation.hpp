#pragma once

#include "ringshard/text/chat_template.hpp"
#include "run.hpp"

// The steps of transformers before and after rendering.
namespace ringshard::text::jinja {

// Returns a view of the value, which must outlive the run.
Datum from_value(Run& run, const Value& value);

// Returns the messages without null members, with the names that templates know for reasoning, and
// with a mark at the end of the text to continue.
Datum prepare_messages(Run& run, const Conversation& conversation, std::string_view source,
                       std::string& continued_text);

// Truncates the rendering after the continued text.
void cut_at_mark(std::string& rendered, std::string_view continued_text);

// Converts a list of objects, or null.
Datum list_of_objects(Run& run, const Value* value, std::string_view name);

}  // namespace ringshard::text::jinja
