#include "row_encoding.hpp"

#include <algorithm>

#include "chat_targets.hpp"
#include "ringshard/data/token_store.hpp"
#include "row_columns.hpp"
#include "segment_row.hpp"

namespace ringshard::data {

using text::SpecialTokens;
using text::Value;

namespace {

// Formats the prompt of Stanford's Alpaca, with the line break before the response that axolotl and
// the text column of tatsu-lab/alpaca have.
std::string alpaca_prompt(const std::string& instruction, const std::string& input) {
    if (input.empty())
        return format_text(
            "Below is an instruction that describes a task. Write a response that appropriately "
            "completes the request.\n\n"
            "### Instruction:\n"
            "{}\n\n"
            "### Response:\n",
            instruction);
    return format_text(
        "Below is an instruction that describes a task, paired with an input that provides further "
        "context. Write a response that appropriately completes the request.\n\n"
        "### Instruction:\n"
        "{}\n\n"
        "### Input:\n"
        "{}\n\n"
        "### Response:\n",
        instruction, input);
}

}  // namespace

void RowEncoding::end_with_eos(std::string& text) const {
    if (!text.ends_with(parts_.tools->eos())) text += parts_.tools->eos();
}

std::optional<Failure> RowEncoding::encode_text() {
    std::string text;
    if (auto failure = read_text(row_, parts_.settings.text_field, text)) return failure;
    end_with_eos(text);
    return encode_learned_text(text, 0);
}

std::optional<Failure> RowEncoding::encode_prompt_completion() {
    std::string prompt;
    std::string completion;
    if (auto failure = read_text(row_, "prompt", prompt)) return failure;
    if (auto failure = read_text(row_, "completion", completion)) return failure;
    return encode_prompt_completion(prompt, std::move(completion));
}

std::optional<Failure> RowEncoding::encode_prompt_completion(const std::string& prompt,
                                                             std::string completion) {
    end_with_eos(completion);
    if (auto failure = tokenize(prompt, SpecialTokens::add, state_.prompt)) return failure;
    if (auto failure = encode_learned_text(prompt + completion, prompt.size())) return failure;
    mask_prompt();
    return std::nullopt;
}

std::optional<Failure> RowEncoding::encode_learned_text(const std::string& text, size_t begin) {
    const std::vector<std::string>& marks = parts_.settings.mask_reasoning;
    const auto failure = marks.empty() ? tokenize(text, SpecialTokens::add, into_.tokens)
                                       : tokenize_with_spans(text, SpecialTokens::add);
    if (failure) return failure;
    into_.labels = into_.tokens;
    if (!marks.empty() &&
        mask_reasoning(text, {begin, text.size()}, marks, state_.spans, into_.labels))
        ++parts_.rows_with_reasoning;
    return std::nullopt;
}

std::optional<Failure> RowEncoding::encode_chat() {
    const auto holds = [this](const char* name) {
        return row_.find(name) != nullptr && !row_.find(name)->is_null();
    };
    const char* const column =
        holds("conversations") && !holds("messages") ? "conversations" : "messages";
    auto messages = read_messages(row_, column, format_.is_share_gpt);
    if (!messages) return messages.failure();
    if (auto failure = take_text(messages.value())) return failure;
    add_system_message(parts_.settings.system_prompt, messages.value());
    return encode_messages(messages.value());
}

std::optional<Failure> RowEncoding::encode_chat_prompt_completion() {
    auto prompt = read_messages(row_, "prompt", false);
    if (!prompt) return prompt.failure();
    if (auto failure = take_text(prompt.value())) return failure;
    add_system_message(parts_.settings.system_prompt, prompt.value());
    auto completion = read_messages(row_, "completion", false);
    if (!completion) return completion.failure();
    if (auto failure = take_text(completion.value())) return failure;
    return encode_chat_prompt_completion(prompt.value(), completion.value());
}

std::optional<Failure> RowEncoding::encode_chat_prompt_completion(const Value& prompt,
                                                                  const Value& completion) {
    Value both = prompt;
    both.list()->insert(both.list()->end(), completion.list()->begin(), completion.list()->end());
    auto chat = read_chat(prompt);
    if (!chat) return chat.failure();
    chat.value().adds_generation_prompt = true;
    const auto rendered = parts_.tools->render(chat.value(), false);
    if (!rendered) return rendered.failure();
    if (auto failure = tokenize(rendered.value().text, SpecialTokens::leave_out, state_.prompt))
        return failure;
    if (auto failure = encode_messages(both)) return failure;
    mask_prompt();
    return std::nullopt;
}

std::optional<Failure> RowEncoding::encode_alpaca() {
    std::string instruction;
    std::string input;
    std::string output;
    if (auto failure = read_text(row_, "instruction", instruction)) return failure;
    if (const Value* column = row_.find("input"); column != nullptr && !column->is_null())
        if (auto failure = read_text(row_, "input", input)) return failure;
    if (auto failure = read_text(row_, "output", output)) return failure;
    if (!parts_.tools->has_chat_template())
        return encode_prompt_completion(alpaca_prompt(instruction, input), std::move(output));
    if (!input.empty()) instruction += "\n" + input;
    const auto message = [](const char* role, std::string content) {
        return Value(Value::List{Value(Value::Object{{"role", Value(std::string(role))},
                                                     {"content", Value(std::move(content))}})});
    };
    Value prompt = message("user", std::move(instruction));
    add_system_message(parts_.settings.system_prompt, prompt);
    return encode_chat_prompt_completion(prompt, message("assistant", std::move(output)));
}

std::optional<Failure> RowEncoding::encode_marked_segments() {
    return encode_segments(
        row_,
        [this](const std::string& text, SpecialTokens special, std::vector<int32_t>& ids) {
            return tokenize(text, special, ids);
        },
        into_);
}

Expected<Value> RowEncoding::read_text_messages(const char* column) {
    auto messages = read_messages(row_, column, false);
    if (!messages) return messages;
    if (auto failure = take_text(messages.value())) return *failure;
    return messages;
}

std::optional<Failure> RowEncoding::take_text(Value& messages) {
    if (auto failure = data::take_text(messages, parts_.settings.text_only, into_.unused))
        return failure;
    for (const Value& message : *messages.list())
        for (const auto& [key, value] : *message.object())
            if (!value.is_null() && !is_message_mark(key) && !is_read(key))
                into_.unused.push_back({Unused::Kind::message_key, key});
    return std::nullopt;
}

bool RowEncoding::is_read(const std::string& key) {
    const auto known = state_.read_keys.find(key);
    if (known != state_.read_keys.end()) return known->second;
    const bool is_of_tools = key == "tool_calls" || key == "tool_call_id" || key == "name";
    const bool is_read = (parts_.agent && is_of_tools) || parts_.tools->template_reads(key);
    constexpr size_t most_keys = 1000;
    if (state_.read_keys.size() < most_keys) state_.read_keys.emplace(key, is_read);
    return is_read;
}

std::optional<Failure> RowEncoding::encode_messages(const Value& messages) {
    const bool finds_assistant = format_.uses_assistant_mask;
    const auto chat = read_chat(messages);
    if (!chat) return chat.failure();
    const Value::List* const tools = chat.value().tools.list();
    if (tools != nullptr && !tools->empty() && !parts_.agent &&
        !parts_.tools->template_reads("tools"))
        into_.unused.push_back({Unused::Kind::column, "tools"});
    const auto marks = read_message_marks(chat.value().messages);
    if (!marks) return marks.failure();
    const LossScale* scale = parts_.scale ? &*parts_.scale : nullptr;
    const auto rendered = parts_.tools->render(chat.value(), finds_assistant || scale != nullptr);
    if (!rendered) return rendered.failure();
    const std::string& text = rendered.value().text;
    const bool learns_all = !finds_assistant && scale == nullptr &&
                            chat.value().unlearned.empty() &&
                            !needs_message_spans(parts_.settings, marks.value());
    const auto failure = learns_all ? tokenize(text, SpecialTokens::leave_out, into_.tokens)
                                    : tokenize_with_spans(text, SpecialTokens::leave_out);
    if (failure) return failure;
    into_.labels = into_.tokens;
    if (learns_all) return std::nullopt;
    const RenderedChat row{chat.value(), rendered.value(), state_.spans, finds_assistant};
    const auto has_reasoning =
        choose_chat_targets(row, marks.value(), parts_.settings, scale, *parts_.tools, into_);
    if (!has_reasoning) return has_reasoning.failure();
    if (has_reasoning.value()) ++parts_.rows_with_reasoning;
    return std::nullopt;
}

Expected<TextTools::Chat> RowEncoding::read_chat(const Value& messages) const {
    const auto column = [&](const char* name) {
        const Value* value = row_.find(name);
        return value != nullptr ? *value : Value();
    };
    auto chat = TextTools::Chat::read(messages, column("tools"), column("chat_template_kwargs"));
    const Value* adds = row_.find("add_generation_prompt");
    if (chat && format_.form == RowForm::labelled_chat && adds != nullptr && !adds->is_null()) {
        if (adds->truth() == nullptr)
            return bad_row(format_text("add_generation_prompt is {}, where true or false is needed",
                                       adds->kind()));
        chat.value().adds_generation_prompt = *adds->truth();
    }
    return chat && parts_.agent ? parts_.agent->apply(std::move(chat).value()) : chat;
}

std::optional<Failure> RowEncoding::tokenize_with_spans(const std::string& text,
                                                        SpecialTokens special) {
    into_.tokens.clear();
    state_.spans.clear();
    return parts_.tools->tokenizer().encode(text, special, *state_.tokenizer, into_.tokens,
                                            state_.spans);
}

std::optional<Failure> RowEncoding::tokenize(const std::string& text, SpecialTokens special,
                                             std::vector<int32_t>& ids) {
    ids.clear();
    return parts_.tools->tokenizer().encode(text, special, *state_.tokenizer, ids);
}

void RowEncoding::mask_prompt() {
    const auto differ = std::ranges::mismatch(state_.prompt, into_.tokens);
    if (differ.in1 != state_.prompt.end()) ++parts_.merged_prompts;
    if (format_.uses_completion_mask)
        std::fill_n(into_.labels.begin(), differ.in2 - into_.tokens.begin(), no_label);
}

}  // namespace ringshard::data
