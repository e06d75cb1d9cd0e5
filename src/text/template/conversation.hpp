#pragma once

#include "ringshard/text/chat_template.hpp"
#include "run.hpp"

// The steps of transformers before and after the template.
namespace ringshard::text::jinja {

// Views the value: it must outlive the run.
Datum from_value(Run& run, const Value& value);

// The messages without null members, with the names of reasoning that templates know, and with a
// mark at the end of what is to be continued.
Datum prepare_messages(Run& run, const Conversation& conversation, std::string_view source,
                       std::string& continued_text);

// Cuts the rendering behind the continued text.
void cut_at_mark(std::string& rendered, std::string_view continued_text);

// A list of objects, or null.
Datum list_of_objects(Run& run, const Value* value, std::string_view name);

}  // namespace ringshard::text::jinja
