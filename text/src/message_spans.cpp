#include "ringshard/text/message_spans.hpp"

#include <algorithm>
#include <array>

#include "ringshard/base/utf8.hpp"

namespace ringshard::text {

namespace {

// No character at an end of one placeholder is at an end of the other: so text that a template or a
// message shares with one of them differs from the other.
constexpr std::array<std::string_view, 2> placeholders{"[[dummy_message]]", "zzdummymessagezz"};

// Returns the part of `text` that differs from `other`, in whole characters.
ByteRange difference(std::string_view text, std::string_view other) {
    const size_t shorter = std::min(text.size(), other.size());
    const auto prefix = static_cast<size_t>(
        std::mismatch(text.begin(), text.begin() + static_cast<ptrdiff_t>(shorter), other.begin())
            .first -
        text.begin());
    size_t suffix = 0;
    while (suffix < shorter - prefix &&
           text[text.size() - 1 - suffix] == other[other.size() - 1 - suffix])
        ++suffix;
    ByteRange range{prefix, text.size() - suffix};
    while (range.begin > 0 && range.begin < text.size() && is_continuation(text[range.begin]))
        --range.begin;
    while (range.end < text.size() && is_continuation(text[range.end])) ++range.end;
    return range;
}

Value placeholder_message(const Value& message, std::string_view content) {
    const Value* role = message.find("role");
    return Value(Value::Object{{"role", role == nullptr ? Value() : *role},
                               {"content", Value(std::string(content))}});
}

}  // namespace

Expected<std::vector<ByteRange>> find_message_spans(const ChatTemplate& chat_template,
                                                    const Conversation& conversation,
                                                    std::string_view rendered,
                                                    const std::vector<bool>& is_wanted) {
    if (std::ranges::find(is_wanted, true) == is_wanted.end())
        return std::vector<ByteRange>(is_wanted.size());
    std::vector<Value> messages(conversation.messages.begin(), conversation.messages.end());
    Conversation changed = conversation;
    changed.messages = messages;
    std::vector<ByteRange> spans(messages.size());
    for (size_t i = 0; i < messages.size(); ++i) {
        if (!is_wanted[i]) continue;
        ByteRange span{rendered.size(), 0};
        for (const std::string_view placeholder : placeholders) {
            messages[i] = placeholder_message(conversation.messages[i], placeholder);
            const auto other = chat_template.render(changed);
            if (!other)
                return Failure{other.failure().code,
                               format_text("where message {} stands in the rendering cannot be "
                                           "found, since the template does not render a message of "
                                           "its role with plain content in its place: {}",
                                           i + 1, other.failure().message)};
            const ByteRange differs = difference(rendered, other.value().text);
            span = {std::min(span.begin, differs.begin), std::max(span.end, differs.end)};
        }
        messages[i] = conversation.messages[i];
        if (span.begin < span.end) spans[i] = span;
    }
    return spans;
}

}  // namespace ringshard::text
