#include "conversation.hpp"

#include <algorithm>

#include "compare.hpp"
#include "unicode/python_characters.hpp"

namespace ringshard::text::jinja {

namespace {

constexpr std::array<std::string_view, 3> reasoning_fields{"reasoning_content", "thinking",
                                                           "reasoning"};
// Ends in a space, so that it shows if a template trims its content.
constexpr std::string_view mark = "CONTINUE_FINAL_MESSAGE_TAG ";

}  // namespace

Datum from_value(Run& run, const Value& value) {
    if (const auto* text = value.string()) return Datum(std::string_view(*text));
    if (const auto* truth = value.truth()) return Datum(*truth);
    if (const auto* whole = value.integer()) return Datum(*whole);
    if (const auto* large = value.large()) return Datum::large(*large);
    if (const auto* real = value.real()) return Datum(*real);
    if (const auto* list = value.list()) {
        std::vector<Datum> items;
        items.reserve(list->size());
        for (const Value& item : *list) items.push_back(from_value(run, item));
        return run.heap.list(std::move(items));
    }
    if (const auto* object = value.object()) {
        const auto dict = run.heap.make<Dict>();
        dict->members.reserve(object->size());
        for (const auto& [name, member] : *object)
            dict->members.emplace_back(Datum(std::string_view(name)), from_value(run, member));
        return datum(dict);
    }
    return Datum::none();
}

namespace {

Ref<Dict> prepare_message(Run& run, const Value& message) {
    const auto dict = run.heap.make<Dict>();
    const Value* reasoning = nullptr;
    for (const std::string_view field : reasoning_fields)
        if (const Value* given = message.find(field); given != nullptr && !given->is_null())
            if (reasoning == nullptr) reasoning = given;
    dict->members.reserve(message.object()->size() + 2);
    if (reasoning != nullptr) dict->set(Datum(reasoning_fields[1]), from_value(run, *reasoning));
    for (const auto& [name, member] : *message.object()) {
        if (member.is_null()) continue;
        const Datum key{std::string_view(name)};
        if (reasoning != nullptr && name == reasoning_fields[1]) {
            dict->set(key, from_value(run, member));
        } else {
            dict->members.emplace_back(key, from_value(run, member));
        }
    }
    if (reasoning != nullptr) dict->set(Datum(reasoning_fields[0]), from_value(run, *reasoning));
    return dict;
}

// Appends the mark to the last text in a list of parts.
Datum mark_parts(Run& run, const Datum& parts, std::string& continued_text) {
    std::vector<Datum> marked = parts.items();
    static constexpr std::string_view text_field = "text";
    for (size_t i = marked.size(); i-- > 0;) {
        if (!marked[i].is(Kind::dict)) fail("a part of the content to continue is no object");
        const Datum* text = marked[i].as<Dict>().find(text_field);
        if (text == nullptr) continue;
        if (!text->is(Kind::text)) fail("the text of a part to continue is a {}", type_name(*text));
        continued_text = text->text();
        const auto part = run.heap.make<Dict>();
        part->members = marked[i].as<Dict>().members;
        part->set(Datum(text_field), run.heap.text(concat(continued_text, mark)));
        marked[i] = datum(part);
        return run.heap.list(std::move(marked));
    }
    fail("the last message is to be continued, but its content has no part with text");
}

void mark_last(Run& run, Dict& last, std::string_view field, std::string_view source,
               std::string& continued_text) {
    const Datum* found = last.find(field);
    if (found == nullptr) fail("the last message is to be continued, but has no '{}'", field);
    const Datum content = *found;
    std::vector<std::string_view> fields{field};
    if (std::ranges::find(reasoning_fields, field) != reasoning_fields.end()) {
        fields.clear();
        for (const std::string_view other : reasoning_fields)
            if (const Datum* same = last.find(other); same != nullptr && equal(*same, content))
                fields.push_back(other);
    }
    const auto is_read = [&](std::string_view name) {
        return source.find(name) != std::string_view::npos;
    };
    if (std::ranges::none_of(fields, is_read))
        fail("'{}' of the last message is to be continued, but the template does not read it",
             field);
    if (content.is(Kind::list)) {
        last.set(Datum(field), mark_parts(run, content, continued_text));
        return;
    }
    if (!content.is(Kind::text))
        fail("'{}' of the last message is to be continued, but is a {}", field, type_name(content));
    continued_text = content.text();
    for (const std::string_view name : fields)
        last.set(Datum(name), run.heap.text(concat(continued_text, mark)));
}

}  // namespace

Datum prepare_messages(Run& run, const Conversation& conversation, std::string_view source,
                       std::string& continued_text) {
    if (conversation.messages.empty()) fail("the conversation has no messages");
    std::vector<Datum> messages;
    messages.reserve(conversation.messages.size());
    for (const Value& message : conversation.messages) {
        if (message.object() == nullptr)
            fail("message {} is {}, not an object", messages.size(), message.kind());
        messages.push_back(datum(prepare_message(run, message)));
    }
    if (!conversation.continued_field.empty())
        mark_last(run, messages.back().as<Dict>(), conversation.continued_field, source,
                  continued_text);
    return run.heap.list(std::move(messages));
}

void cut_at_mark(std::string& rendered, std::string_view continued_text) {
    const std::string_view plain_mark = mark.substr(0, mark.size() - 1);
    const size_t at = rendered.rfind(plain_mark);
    const bool has_text = rendered.find(strip(continued_text)) != std::string::npos;
    if (at == std::string::npos || !has_text)
        fail("the last message is to be continued, but the template changes or drops it");
    const bool is_whole = rendered.compare(at, mark.size(), mark) == 0;
    rendered.resize(at);
    if (!is_whole) rendered.resize(strip_right(rendered).size());
}

Datum list_of_objects(Run& run, const Value* value, std::string_view name) {
    if (value == nullptr || value->is_null()) return Datum::none();
    if (value->list() == nullptr) fail("'{}' is {}, not a list of objects", name, value->kind());
    for (const Value& item : *value->list())
        if (item.object() == nullptr)
            fail("'{}' holds {}, but it is a list of objects", name, item.kind());
    return from_value(run, *value);
}

}  // namespace ringshard::text::jinja
