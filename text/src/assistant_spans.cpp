#include "ringshard/text/assistant_spans.hpp"

namespace ringshard::text {

namespace {

bool is_assistant(const Value& message) {
    const Value* role = message.find("role");
    return role != nullptr && role->string() != nullptr && *role->string() == "assistant";
}

Failure no_prefix(const ChatTemplate& chat_template, size_t message, std::string_view what) {
    return {ExitCode::bad_data,
            format_text("{}: the assistant's message {} cannot be found in the rendering, since "
                        "{}; put {{% generation %}} ... {{% endgeneration %}} around what the "
                        "assistant says in a copy of the template, and name that file with "
                        "chat_template_path",
                        chat_template.name(), message, what)};
}

Expected<std::string> render_first(const ChatTemplate& chat_template, Conversation conversation,
                                   size_t num_messages, bool prompt) {
    conversation.messages = conversation.messages.first(num_messages);
    conversation.add_generation_prompt = prompt;
    auto rendered = chat_template.render(conversation);
    if (!rendered) return rendered.failure();
    return std::move(rendered).value().text;
}

Expected<ByteRange> find_span(const ChatTemplate& chat_template, const Conversation& conversation,
                              size_t message, std::string_view whole) {
    if (message == 0)
        return no_prefix(chat_template, message, "there is no message before it to render");
    const auto before = render_first(chat_template, conversation, message, true);
    if (!before)
        return no_prefix(chat_template, message,
                         format_text("the messages before it cannot be rendered alone ({})",
                                     before.failure().message));
    const auto with = render_first(chat_template, conversation, message + 1, false);
    if (!with)
        return no_prefix(chat_template, message,
                         format_text("the messages up to it cannot be rendered alone ({})",
                                     with.failure().message));
    if (!whole.starts_with(with.value()))
        return no_prefix(chat_template, message,
                         "it is rendered differently when other messages follow");
    if (!with.value().starts_with(before.value()))
        return no_prefix(chat_template, message,
                         "the generation prompt is not how its rendering begins");
    return ByteRange{before.value().size(), with.value().size()};
}

}  // namespace

Expected<std::vector<ByteRange>> find_assistant_spans(const ChatTemplate& chat_template,
                                                      const Conversation& conversation) {
    const auto whole = chat_template.render(conversation);
    if (!whole) return whole.failure();
    std::vector<ByteRange> spans;
    for (size_t i = 0; i < conversation.messages.size(); ++i) {
        if (!is_assistant(conversation.messages[i])) continue;
        const auto span = find_span(chat_template, conversation, i, whole.value().text);
        if (!span) return span.failure();
        spans.push_back(span.value());
    }
    return spans;
}

}  // namespace ringshard::text
