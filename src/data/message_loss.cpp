#include "message_loss.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "ringshard/data/token_store.hpp"
#include "row_columns.hpp"

namespace ringshard::data {

using text::ByteRange;
using text::Value;

namespace {

constexpr std::array names_of_train{"train", "training", "loss_mask"};

// Accepts true, false, 1 or 0.
std::optional<bool> flag_of(const Value& value) {
    if (value.truth() != nullptr) return *value.truth();
    if (value.integer() != nullptr && (*value.integer() == 0 || *value.integer() == 1))
        return *value.integer() == 1;
    if (value.real() != nullptr && (*value.real() == 0 || *value.real() == 1))
        return *value.real() == 1;
    return std::nullopt;
}

Expected<MessageMarks> marks_of(const Value& message, size_t number) {
    MessageMarks marks;
    const char* first = nullptr;
    for (const char* name : names_of_train) {
        const Value* value = message.find(name);
        if (value == nullptr || value->is_null()) continue;
        const auto flag = flag_of(*value);
        if (!flag)
            return bad_row(
                format_text("message {}: {} is {}, where true or false (or 1 or 0) is needed",
                            number, name, value->kind()));
        if (marks.train && *marks.train != *flag)
            return bad_row(
                format_text("message {}: {} and {} contradict each other; keep one of them", number,
                            first, name));
        marks.train = flag;
        first = name;
    }
    const Value* weight = message.find("weight");
    if (weight == nullptr || weight->is_null()) return marks;
    const auto number_of = read_weight(*weight, format_text("message {}: weight", number));
    if (!number_of) return number_of.failure();
    marks.weight = number_of.value();
    return marks;
}

// A range of token indices.
struct TokenRange {
    size_t begin = 0;
    size_t end = 0;
};

// Returns the tokens that overlap the range. Requires ascending spans.
TokenRange tokens_of(ByteRange range, std::span<const text::Span> tokens) {
    const auto first = std::ranges::upper_bound(tokens, range.begin, {}, &text::Span::last);
    const auto last = std::ranges::lower_bound(tokens, range.end, {}, &text::Span::first);
    const auto begin = static_cast<size_t>(first - tokens.begin());
    return {begin, std::max(begin, static_cast<size_t>(last - tokens.begin()))};
}

bool overlap(ByteRange a, ByteRange b) { return a.begin < b.end && b.begin < a.end; }

// Extends a range by a marker, and white space after it, directly before the range: a template may
// begin every answer with the marker, outside of the message.
ByteRange with_mark_before(std::string_view text, ByteRange range, const std::string& mark) {
    const std::string_view before = text.substr(0, range.begin);
    const size_t last = before.find_last_not_of(" \n\r\t");
    if (last == std::string_view::npos || !before.substr(0, last + 1).ends_with(mark)) return range;
    return {last + 1 - mark.size(), range.end};
}

// Computes labels and weights of one conversation.
class MessageLoss {
public:
    MessageLoss(const RenderedChat& row, std::span<const MessageMarks> marks,
                const FormatSettings& settings, const TextTools& tools, EncodedRow& into)
        : row_(row),
          settings_(settings),
          tools_(tools),
          messages_(*row.chat.messages.list()),
          marks_(marks.begin(), marks.end()),
          into_(into) {
        marks_.resize(messages_.size());
    }

    Expected<bool> apply() {
        choose_messages();
        auto spans = tools_.find_messages(row_.chat, row_.rendered.text, needs_span());
        if (!spans) return spans.failure();
        spans_ = std::move(spans).value();
        const std::vector<int32_t> tokens = into_.labels;
        begin_labels();
        for (size_t i = 0; i < messages_.size(); ++i) set_labels(i, tokens);
        set_weights();
        return remove_reasoning();
    }

private:
    bool is_assistant(size_t message) const { return role_of(message) == "assistant"; }
    std::string role_of(size_t message) const {
        const Value* role = messages_[message].find("role");
        return role != nullptr && role->string() != nullptr ? *role->string() : std::string();
    }
    // Ignores the marks of the message.
    bool is_learned_as_usual(size_t message) const {
        if (!settings_.roles_to_train.empty())
            return std::ranges::find(settings_.roles_to_train, role_of(message)) !=
                   settings_.roles_to_train.end();
        return !row_.learns_assistant_only || is_assistant(message);
    }
    // Returns true if only selected messages have targets, without the template's text around them.
    bool begins_with_nothing() const {
        return !settings_.roles_to_train.empty() || settings_.train_on_last_turn_only;
    }

    void choose_messages() {
        size_t last = 0;
        for (size_t i = 0; i < messages_.size(); ++i) {
            is_learned_.push_back(marks_[i].train.value_or(is_learned_as_usual(i)) &&
                                  marks_[i].weight > 0);
            if (is_learned_[i]) last = i;
        }
        for (size_t i = 0; i < last && settings_.train_on_last_turn_only; ++i)
            is_learned_[i] = false;
    }

    std::vector<bool> needs_span() const {
        std::vector<bool> needed(messages_.size());
        for (size_t i = 0; i < messages_.size(); ++i) {
            const bool was_learned = !begins_with_nothing() && is_learned_as_usual(i);
            const bool is_weighted = is_learned_[i] && marks_[i].weight != 1;
            const bool may_reason =
                !settings_.mask_reasoning.empty() && is_learned_[i] && is_assistant(i);
            needed[i] = is_learned_[i] != was_learned || is_weighted || may_reason;
        }
        return needed;
    }

    void begin_labels() {
        // If no message has targets, the text around the messages has none either.
        const bool learns_any = std::ranges::find(is_learned_, true) != is_learned_.end();
        std::vector<bool> is_learned(into_.labels.size(), learns_any && !begins_with_nothing());
        if (!begins_with_nothing() && row_.learns_assistant_only)
            is_learned = tokens_in(row_.rendered.assistant, row_.tokens);
        for (size_t i = 0; i < is_learned.size(); ++i)
            if (!is_learned[i]) into_.labels[i] = no_label;
    }

    // Returns the target tokens of a message. Like TRL for an assistant's message under
    // assistant_only_loss; otherwise its content and an EOS within the next three tokens, like
    // axolotl.
    std::vector<bool> tokens_of_message(size_t message) const {
        std::vector<bool> is_in(row_.tokens.size(), false);
        const ByteRange span = spans_[message];
        if (span.begin == span.end) return is_in;
        std::vector<ByteRange> answers;
        if (row_.learns_assistant_only && settings_.roles_to_train.empty() && is_assistant(message))
            std::ranges::copy_if(row_.rendered.assistant, std::back_inserter(answers),
                                 [&](ByteRange answer) { return overlap(answer, span); });
        if (!answers.empty()) return tokens_in(answers, row_.tokens);
        const TokenRange range = tokens_of(span, row_.tokens);
        std::fill(is_in.begin() + static_cast<ptrdiff_t>(range.begin),
                  is_in.begin() + static_cast<ptrdiff_t>(range.end), true);
        if (const auto end = end_of_turn(range.end)) is_in[*end] = true;
        return is_in;
    }

    std::optional<size_t> end_of_turn(size_t begin) const {
        constexpr size_t farthest = 3;
        const auto eos = tools_.tokenizer().id_of(tools_.eos());
        for (size_t i = begin; eos && i < into_.tokens.size() && i <= begin + farthest; ++i)
            if (into_.tokens[i] == *eos) return i;
        return std::nullopt;
    }

    void set_labels(size_t message, const std::vector<int32_t>& tokens) {
        if (spans_[message].begin == spans_[message].end) return;
        const auto is_in = tokens_of_message(message);
        if (!is_learned_[message] && begins_with_nothing()) return;
        for (size_t i = 0; i < is_in.size(); ++i)
            if (is_in[i]) into_.labels[i] = is_learned_[message] ? tokens[i] : no_label;
    }

    void set_weights() {
        for (size_t message = 0; message < messages_.size(); ++message) {
            if (!is_learned_[message] || marks_[message].weight == 1) continue;
            if (into_.weights.empty()) into_.weights.assign(into_.tokens.size(), 1.0F);
            const auto is_in = tokens_of_message(message);
            for (size_t i = 0; i < is_in.size(); ++i)
                if (is_in[i]) into_.weights[i] = marks_[message].weight;
        }
    }

    bool remove_reasoning() {
        bool found = false;
        for (size_t i = 0; i < messages_.size() && !settings_.mask_reasoning.empty(); ++i) {
            if (!is_learned_[i] || !is_assistant(i) || spans_[i].begin == spans_[i].end) continue;
            const std::string& text = row_.rendered.text;
            found |= mask_reasoning(
                text, with_mark_before(text, spans_[i], settings_.mask_reasoning.front()),
                settings_.mask_reasoning, row_.tokens, into_.labels);
        }
        return found;
    }

    const RenderedChat& row_;
    const FormatSettings& settings_;
    const TextTools& tools_;
    const Value::List& messages_;
    std::vector<MessageMarks> marks_;
    std::vector<bool> is_learned_;  // by message
    std::vector<ByteRange> spans_;  // by message; empty: not needed, or not in the rendering
    EncodedRow& into_;
};

}  // namespace

bool is_message_mark(std::string_view key) {
    return key == "weight" || std::ranges::find(names_of_train, key) != names_of_train.end();
}

Expected<float> read_weight(const Value& value, const std::string& name) {
    if (value.real() == nullptr && value.integer() == nullptr)
        return bad_row(format_text("{} is {}, where a number is needed", name, value.kind()));
    const double weight =
        value.real() != nullptr ? *value.real() : static_cast<double>(*value.integer());
    const auto rounded = static_cast<float>(weight);
    if (!std::isfinite(rounded) || rounded < 0)
        return bad_row(
            format_text("{} is {}, and a weight is finite and not below 0", name, weight));
    return rounded;
}

Expected<std::vector<MessageMarks>> read_message_marks(const Value& messages) {
    std::vector<MessageMarks> all;
    bool has_any = false;
    for (const Value& message : *messages.list()) {
        auto marks = marks_of(message, all.size() + 1);
        if (!marks) return marks.failure();
        has_any = has_any || marks.value().train || marks.value().weight != 1;
        all.push_back(marks.value());
    }
    if (!has_any) all.clear();
    return all;
}

bool needs_message_spans(const FormatSettings& settings, std::span<const MessageMarks> marks) {
    return !marks.empty() || !settings.roles_to_train.empty() || settings.train_on_last_turn_only ||
           !settings.mask_reasoning.empty();
}

Expected<bool> apply_message_loss(const RenderedChat& row, std::span<const MessageMarks> marks,
                                  const FormatSettings& settings, const TextTools& tools,
                                  EncodedRow& into) {
    return MessageLoss(row, marks, settings, tools, into).apply();
}

namespace {

// Returns where empty reasoning that starts at `begin` ends, with the blanks after it; `begin`:
// there is none.
size_t end_of_empty_reasoning(std::string_view text, size_t begin,
                              const std::vector<std::string>& marks) {
    size_t at = begin;
    if (text.substr(at).starts_with(marks[0])) at += marks[0].size();
    at = std::min(text.find_first_not_of(" \n\r\t", at), text.size());
    if (!text.substr(at).starts_with(marks[1])) return begin;
    return std::min(text.find_first_not_of(" \n\r\t", at + marks[1].size()), text.size());
}

bool mask_range(ByteRange range, std::span<const text::Span> tokens, std::vector<int32_t>& labels) {
    if (range.begin == range.end) return false;
    const TokenRange inside = tokens_of(range, tokens);
    std::fill(labels.begin() + static_cast<ptrdiff_t>(inside.begin),
              labels.begin() + static_cast<ptrdiff_t>(inside.end), no_label);
    return true;
}

}  // namespace

std::optional<Failure> mask_unlearned(const RenderedChat& row, const TextTools& tools,
                                      std::vector<int32_t>& labels) {
    const Value::List& messages = *row.chat.messages.list();
    std::vector<bool> is_wanted(messages.size());
    for (const auto& part : row.chat.unlearned) is_wanted[part.message] = true;
    const auto spans = tools.find_messages(row.chat, row.rendered.text, is_wanted);
    if (!spans) return spans.failure();
    for (const auto& part : row.chat.unlearned) {
        const ByteRange span = spans.value()[part.message];
        const std::string& content = *messages[part.message].find("content")->string();
        if (row.rendered.text.substr(span.begin, span.end - span.begin) != content)
            return bad_row(format_text(
                "message {}: the chat template changes its content, so that the result of a tool "
                "in it cannot be left unlearned; agent_template hermes has a message for it",
                part.message + 1));
        mask_range({span.begin + part.bytes.begin, span.begin + part.bytes.end}, row.tokens,
                   labels);
    }
    return std::nullopt;
}

bool mask_reasoning(std::string_view text, ByteRange range, const std::vector<std::string>& marks,
                    std::span<const text::Span> tokens, std::vector<int32_t>& labels) {
    const std::string& first = marks[0];
    const std::string& second = marks[1];
    if (marks.size() == 3) {
        const size_t end = end_of_empty_reasoning(text.substr(0, range.end), range.begin, marks);
        return mask_range({range.begin, end}, tokens, labels);
    }
    const std::string_view searched = text.substr(0, range.end);
    bool found = false;
    for (size_t at = range.begin; at < range.end;) {
        const size_t end = searched.find(second, at);
        size_t begin = searched.find(first, at);
        if (begin == std::string_view::npos && end == std::string_view::npos) break;
        if (!found && end < begin) begin = at;
        if (begin == std::string_view::npos) break;
        const size_t close = searched.find(second, begin);
        const ByteRange reasoning{
            begin, close == std::string_view::npos ? range.end : close + second.size()};
        found |= mask_range(reasoning, tokens, labels);
        at = reasoning.end;
    }
    return found;
}

}  // namespace ringshard::data
