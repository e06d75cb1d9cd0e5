#include <algorithm>
#include <atomic>
#include <map>

#include "agent_template.hpp"
#include "chat_targets.hpp"
#include "implicit_prompt.hpp"
#include "ringshard/data/format.hpp"
#include "ringshard/data/text_tools.hpp"
#include "ringshard/data/token_store.hpp"
#include "row_columns.hpp"
#include "row_tools.hpp"
#include "scored_row.hpp"
#include "segment_row.hpp"

namespace ringshard::data {

using text::SpecialTokens;
using text::Value;

namespace {

void end_with(std::string& text, const std::string& eos) {
    if (!text.ends_with(eos)) text += eos;
}

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

struct RowEncoder::Parts {
    FormatSettings settings;
    std::optional<TextTools> tools;
    std::optional<LossScale> scale;      // of loss_scale
    std::optional<AgentTemplate> agent;  // of agent_template
    mutable std::atomic<int64_t> merged_prompts = 0;
    mutable std::atomic<int64_t> rows_with_reasoning = 0;
};

struct RowEncoder::Scratch::State {
    std::map<std::string, bool, std::less<>> read_keys;  // by message key
    std::optional<text::Tokenizer::Scratch> tokenizer;
    std::vector<int32_t> prompt;
    std::vector<text::Span> spans;
};

RowEncoder::Scratch::Scratch(const RowEncoder& encoder) : state_(std::make_unique<State>()) {
    if (encoder.parts_->tools) state_->tokenizer.emplace(encoder.parts_->tools->tokenizer());
}
RowEncoder::Scratch::Scratch(Scratch&&) noexcept = default;
RowEncoder::Scratch::~Scratch() = default;

RowEncoder::RowEncoder(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
RowEncoder::RowEncoder(RowEncoder&&) noexcept = default;
RowEncoder::~RowEncoder() = default;

Expected<RowEncoder> RowEncoder::make(const FormatSettings& settings,
                                      std::span<const DatasetFormat> formats) {
    auto parts = std::make_unique<Parts>();
    parts->settings = settings;
    if (!settings.loss_scale.empty()) {
        auto scale = LossScale::make(settings.loss_scale);
        if (!scale) return scale.failure();
        parts->scale.emplace(std::move(scale).value());
    }
    if (!std::ranges::all_of(formats, [](const DatasetFormat& format) {
            return format.form == RowForm::pretokenized;
        })) {
        auto tools = load_row_tools(settings, formats);
        if (!tools) return tools.failure();
        parts->tools.emplace(std::move(tools).value());
        if (!settings.agent_template.empty()) {
            auto agent = AgentTemplate::make(settings.agent_template, *parts->tools);
            if (!agent) return agent.failure();
            parts->agent.emplace(std::move(agent).value());
        }
    }
    return RowEncoder(std::move(parts));
}

bool RowEncoder::finds_assistant_by_prefixes() const {
    return parts_->settings.assistant_only_loss && parts_->tools &&
           !parts_->tools->marks_assistant();
}

std::string RowEncoder::training_family() const {
    return parts_->tools ? parts_->tools->training_family() : std::string();
}

bool RowEncoder::has_chat_template() const {
    return parts_->tools && parts_->tools->has_chat_template();
}

int64_t RowEncoder::num_merged_prompts() const { return parts_->merged_prompts; }
int64_t RowEncoder::num_rows_with_reasoning() const { return parts_->rows_with_reasoning; }

// The encoding of one row: refers to the encoder, the row and the thread's state.
class RowEncoder::Encoding {
public:
    Encoding(const Parts& parts, const Value& row, const DatasetFormat& format,
             Scratch::State& scratch, EncodedRow& into)
        : parts_(parts), row_(row), format_(format), scratch_(scratch), into_(into) {}

    std::optional<Failure> encode() {
        switch (format_.form) {
            case RowForm::pretokenized: return read_pretokenized(row_, format_, into_);
            case RowForm::text: return encode_text();
            case RowForm::prompt_completion: return encode_prompt_completion();
            case RowForm::chat: return encode_chat();
            case RowForm::chat_prompt_completion: return encode_chat_prompt_completion();
            case RowForm::alpaca: return encode_alpaca();
            case RowForm::segments:
                return encode_segments(
                    row_,
                    [this](const std::string& text, SpecialTokens special,
                           std::vector<int32_t>& ids) { return tokenize(text, special, ids); },
                    into_);
            case RowForm::pair: return is_scored() ? encode_scored_pair() : encode_pair();
            case RowForm::chat_pair:
                return is_scored() ? encode_scored_chat_pair() : encode_chat_pair();
            case RowForm::labelled_text: return encode_labelled_text();
            case RowForm::labelled_chat: return encode_labelled_chat();
        }
        return std::nullopt;
    }

private:
    bool is_scored() const { return parts_.settings.content.is_scored; }

    std::optional<Failure> encode_text() {
        std::string text;
        if (auto failure = read_text(row_, parts_.settings.text_field, text)) return failure;
        end_with(text, parts_.tools->eos());
        return encode_learned_text(text, 0);
    }

    std::optional<Failure> encode_prompt_completion() {
        std::string prompt;
        std::string completion;
        if (auto failure = read_text(row_, "prompt", prompt)) return failure;
        if (auto failure = read_text(row_, "completion", completion)) return failure;
        return encode_prompt_completion(prompt, std::move(completion));
    }

    std::optional<Failure> encode_prompt_completion(const std::string& prompt,
                                                    std::string completion) {
        end_with(completion, parts_.tools->eos());
        if (auto failure = tokenize(prompt, SpecialTokens::add, scratch_.prompt)) return failure;
        if (auto failure = encode_learned_text(prompt + completion, prompt.size())) return failure;
        mask_prompt();
        return std::nullopt;
    }

    // Searches reasoning from `begin` on.
    std::optional<Failure> encode_learned_text(const std::string& text, size_t begin) {
        const std::vector<std::string>& marks = parts_.settings.mask_reasoning;
        const auto failure = marks.empty() ? tokenize(text, SpecialTokens::add, into_.tokens)
                                           : tokenize_with_spans(text, SpecialTokens::add);
        if (failure) return failure;
        into_.labels = into_.tokens;
        if (!marks.empty() &&
            mask_reasoning(text, {begin, text.size()}, marks, scratch_.spans, into_.labels))
            ++parts_.rows_with_reasoning;
        return std::nullopt;
    }

    std::optional<Failure> encode_chat() {
        const char* column = row_.find("messages") != nullptr && !row_.find("messages")->is_null()
                                 ? "messages"
                                 : "conversations";
        auto messages = read_messages(row_, column, format_.is_share_gpt);
        if (!messages) return messages.failure();
        if (auto failure = take_text(messages.value())) return failure;
        add_system_message(parts_.settings.system_prompt, messages.value());
        return encode_messages(messages.value());
    }

    std::optional<Failure> encode_chat_prompt_completion() {
        auto prompt = read_messages(row_, "prompt", false);
        if (!prompt) return prompt.failure();
        if (auto failure = take_text(prompt.value())) return failure;
        add_system_message(parts_.settings.system_prompt, prompt.value());
        auto completion = read_messages(row_, "completion", false);
        if (!completion) return completion.failure();
        if (auto failure = take_text(completion.value())) return failure;
        return encode_chat_prompt_completion(prompt.value(), completion.value());
    }

    std::optional<Failure> encode_chat_prompt_completion(const Value& prompt,
                                                         const Value& completion) {
        Value both = prompt;
        both.list()->insert(both.list()->end(), completion.list()->begin(),
                            completion.list()->end());
        auto chat = read_chat(prompt);
        if (!chat) return chat.failure();
        chat.value().adds_generation_prompt = true;
        const auto rendered = parts_.tools->render(chat.value(), false);
        if (!rendered) return rendered.failure();
        if (auto failure =
                tokenize(rendered.value().text, SpecialTokens::leave_out, scratch_.prompt))
            return failure;
        if (auto failure = encode_messages(both)) return failure;
        mask_prompt();
        return std::nullopt;
    }

    // Encodes a conversation if there is a chat template, otherwise Stanford's Alpaca text.
    std::optional<Failure> encode_alpaca() {
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

    std::optional<Failure> encode_pair() {
        TextPair pair;
        if (auto failure = read_text(row_, "chosen", pair.chosen)) return failure;
        if (auto failure = read_text(row_, "rejected", pair.rejected)) return failure;
        if (!format_.has_prompt)
            take_prompt_out(pair);
        else if (auto failure = read_text(row_, "prompt", pair.prompt))
            return failure;
        return encode_sides([&] { return encode_prompt_completion(pair.prompt, pair.chosen); },
                            [&] { return encode_prompt_completion(pair.prompt, pair.rejected); });
    }

    std::optional<Failure> encode_chat_pair() {
        auto chosen = read_text_messages("chosen");
        if (!chosen) return chosen.failure();
        auto rejected = read_text_messages("rejected");
        if (!rejected) return rejected.failure();
        auto prompt = format_.has_prompt ? read_text_messages("prompt")
                                         : take_prompt_out(chosen.value(), rejected.value());
        if (!prompt) return prompt.failure();
        add_system_message(parts_.settings.system_prompt, prompt.value());
        return encode_sides(
            [&] { return encode_chat_prompt_completion(prompt.value(), chosen.value()); },
            [&] { return encode_chat_prompt_completion(prompt.value(), rejected.value()); });
    }

    Expected<Value> read_text_messages(const char* column) {
        auto messages = read_messages(row_, column, false);
        if (!messages) return messages;
        if (auto failure = take_text(messages.value())) return *failure;
        return messages;
    }

    // Encodes two documents, one behind the other. Both answers begin where one of them does not go
    // on like the prompt alone, as in TRL.
    template <class EncodeChosen, class EncodeRejected>
    std::optional<Failure> encode_sides(EncodeChosen encode_chosen,
                                        EncodeRejected encode_rejected) {
        if (auto failure = encode_chosen()) return failure;
        EncodedRow chosen;
        std::swap(chosen.tokens, into_.tokens);
        std::swap(chosen.labels, into_.labels);
        if (auto failure = encode_rejected()) return failure;
        if (chosen.tokens == into_.tokens)
            return bad_row("chosen and rejected are the same answer");
        const size_t first = std::min(first_learned(chosen), first_learned(into_));
        for (EncodedRow* side : {&chosen, &into_}) {
            if (first_learned(*side) == side->tokens.size())
                return bad_row(format_text("{} has no token of an answer",
                                           side == &chosen ? "chosen" : "rejected"));
            std::copy(side->tokens.begin() + static_cast<std::ptrdiff_t>(first), side->tokens.end(),
                      side->labels.begin() + static_cast<std::ptrdiff_t>(first));
            into_.document_lengths.push_back(static_cast<int32_t>(side->tokens.size()));
        }
        if (parts_.settings.content.learns_prompts) {
            std::copy_n(chosen.tokens.begin(), first, chosen.labels.begin());
            into_.weights.assign(first, 0);
            into_.weights.resize(chosen.tokens.size() + into_.tokens.size(), 1);
        }
        into_.tokens.insert(into_.tokens.begin(), chosen.tokens.begin(), chosen.tokens.end());
        into_.labels.insert(into_.labels.begin(), chosen.labels.begin(), chosen.labels.end());
        return std::nullopt;
    }

    std::optional<Failure> encode_labelled_text() {
        std::string text;
        if (auto failure = read_text(row_, parts_.settings.text_field, text)) return failure;
        if (auto failure = tokenize(text, SpecialTokens::add, into_.tokens)) return failure;
        return label_with_column();
    }

    std::optional<Failure> encode_labelled_chat() {
        auto messages = read_text_messages("messages");
        if (!messages) return messages.failure();
        add_system_message(parts_.settings.system_prompt, messages.value());
        if (auto failure = encode_messages(messages.value())) return failure;
        return label_with_column();
    }

    std::optional<Failure> label_with_column() {
        const auto label = read_label(row_, parts_.settings);
        if (!label) return label.failure();
        if (into_.tokens.empty()) return bad_row("has no token");
        label_from(0, label.value());
        return std::nullopt;
    }

    void label_from(size_t first, int32_t label) {
        if (first == 0) into_.labels.clear();
        label_document(label, parts_.tools->padding_token().value_or(-1), first, into_);
    }

    std::optional<Failure> encode_scored_pair() {
        std::string prompt;
        TextPair pair;
        if (format_.has_prompt)
            if (auto failure = read_text(row_, "prompt", prompt)) return failure;
        if (auto failure = read_text(row_, "chosen", pair.chosen)) return failure;
        if (auto failure = read_text(row_, "rejected", pair.rejected)) return failure;
        const auto encode = [&](std::string answer) {
            end_with(answer, parts_.tools->eos());
            return tokenize(prompt + answer, SpecialTokens::add, into_.tokens);
        };
        return encode_scored_sides([&] { return encode(pair.chosen); },
                                   [&] { return encode(pair.rejected); });
    }

    std::optional<Failure> encode_scored_chat_pair() {
        Value prompt{Value::List()};
        if (format_.has_prompt) {
            auto read = read_text_messages("prompt");
            if (!read) return read.failure();
            prompt = std::move(read).value();
        }
        auto chosen = read_text_messages("chosen");
        if (!chosen) return chosen.failure();
        auto rejected = read_text_messages("rejected");
        if (!rejected) return rejected.failure();
        const auto encode = [&](const Value& answer) {
            Value all = prompt;
            all.list()->insert(all.list()->end(), answer.list()->begin(), answer.list()->end());
            add_system_message(parts_.settings.system_prompt, all);
            return encode_messages(all);
        };
        return encode_scored_sides([&] { return encode(chosen.value()); },
                                   [&] { return encode(rejected.value()); });
    }

    // Both documents have one label, since their scores are compared.
    template <class EncodeChosen, class EncodeRejected>
    std::optional<Failure> encode_scored_sides(EncodeChosen encode_chosen,
                                               EncodeRejected encode_rejected) {
        if (auto failure = encode_chosen()) return failure;
        const std::vector<int32_t> chosen = into_.tokens;
        if (auto failure = encode_rejected()) return failure;
        if (chosen == into_.tokens) return bad_row("chosen and rejected are the same answer");
        const std::vector<int32_t> rejected = std::exchange(into_.tokens, {});
        into_.labels.clear();
        for (const std::vector<int32_t>* side : {&chosen, &rejected}) {
            const size_t first = into_.tokens.size();
            into_.tokens.insert(into_.tokens.end(), side->begin(), side->end());
            into_.document_lengths.push_back(static_cast<int32_t>(side->size()));
            label_from(first, 0);
        }
        return std::nullopt;
    }

    static size_t first_learned(const EncodedRow& row) {
        return static_cast<size_t>(
            std::ranges::find_if(row.labels, [](int32_t label) { return label != no_label; }) -
            row.labels.begin());
    }

    // Keeps the text of messages, and records unread keys.
    std::optional<Failure> take_text(Value& messages) {
        if (auto failure = data::take_text(messages, parts_.settings.text_only, into_.unused))
            return failure;
        for (const Value& message : *messages.list())
            for (const auto& [key, value] : *message.object())
                if (!value.is_null() && !is_message_mark(key) && !is_read(key))
                    into_.unused.push_back({Unused::Kind::message_key, key});
        return std::nullopt;
    }

    // Returns true if the chat template reads a message key.
    bool is_read(const std::string& key) {
        const auto known = scratch_.read_keys.find(key);
        if (known != scratch_.read_keys.end()) return known->second;
        const bool is_of_tools = key == "tool_calls" || key == "tool_call_id" || key == "name";
        const bool is_read = (parts_.agent && is_of_tools) || parts_.tools->template_reads(key);
        constexpr size_t most_keys = 1000;
        if (scratch_.read_keys.size() < most_keys) scratch_.read_keys.emplace(key, is_read);
        return is_read;
    }

    std::optional<Failure> encode_messages(const Value& messages) {
        const bool finds_assistant = format_.uses_assistant_mask;
        const auto chat = read_chat(messages);
        if (!chat) return chat.failure();
        const auto marks = read_message_marks(chat.value().messages);
        if (!marks) return marks.failure();
        const LossScale* scale = parts_.scale ? &*parts_.scale : nullptr;
        const auto rendered =
            parts_.tools->render(chat.value(), finds_assistant || scale != nullptr);
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
        const RenderedChat row{chat.value(), rendered.value(), scratch_.spans, finds_assistant};
        const auto has_reasoning =
            choose_chat_targets(row, marks.value(), parts_.settings, scale, *parts_.tools, into_);
        if (!has_reasoning) return has_reasoning.failure();
        if (has_reasoning.value()) ++parts_.rows_with_reasoning;
        return std::nullopt;
    }

    // Reads the columns of a conversation, with tools in the form of agent_template.
    Expected<TextTools::Chat> read_chat(const Value& messages) const {
        const auto column = [&](const char* name) {
            const Value* value = row_.find(name);
            return value != nullptr ? *value : Value();
        };
        auto chat =
            TextTools::Chat::read(messages, column("tools"), column("chat_template_kwargs"));
        const Value* adds = row_.find("add_generation_prompt");
        if (chat && format_.form == RowForm::labelled_chat && adds != nullptr && !adds->is_null()) {
            if (adds->truth() == nullptr)
                return bad_row(format_text(
                    "add_generation_prompt is {}, where true or false is needed", adds->kind()));
            chat.value().adds_generation_prompt = *adds->truth();
        }
        return chat && parts_.agent ? parts_.agent->apply(std::move(chat).value()) : chat;
    }

    // Tokenizes the text of the row; stores each token's span in the scratch.
    std::optional<Failure> tokenize_with_spans(const std::string& text, SpecialTokens special) {
        into_.tokens.clear();
        scratch_.spans.clear();
        return parts_.tools->tokenizer().encode(text, special, *scratch_.tokenizer, into_.tokens,
                                                scratch_.spans);
    }

    std::optional<Failure> tokenize(const std::string& text, SpecialTokens special,
                                    std::vector<int32_t>& ids) {
        ids.clear();
        return parts_.tools->tokenizer().encode(text, special, *scratch_.tokenizer, ids);
    }

    // Locates the completion by the first difference between the tokens of the prompt alone and of
    // the row.
    void mask_prompt() {
        const auto differ = std::ranges::mismatch(scratch_.prompt, into_.tokens);
        if (differ.in1 != scratch_.prompt.end()) ++parts_.merged_prompts;
        if (format_.uses_completion_mask)
            std::fill_n(into_.labels.begin(), differ.in2 - into_.tokens.begin(), no_label);
    }

    const Parts& parts_;
    const Value& row_;
    const DatasetFormat& format_;
    Scratch::State& scratch_;
    EncodedRow& into_;
};

std::optional<Failure> RowEncoder::encode(const Value& row, const DatasetFormat& format,
                                          Scratch& scratch, EncodedRow& into) const {
    into.document_lengths.clear();
    into.weights.clear();
    into.unused.clear();
    if (auto failure = record_unused_columns(row, format, parts_->settings.text_only, into))
        return failure;
    if (auto failure = Encoding(*parts_, row, format, *scratch.state_, into).encode())
        return failure;
    const bool is_pair = format.form == RowForm::pair || format.form == RowForm::chat_pair;
    if (is_pair) return std::nullopt;
    if (auto failure = apply_row_weight(row, into)) return failure;
    const bool has_documents = format.form == RowForm::pretokenized && row.find("seq_lengths") &&
                               !row.find("seq_lengths")->is_null();
    if (!has_documents) into.document_lengths.assign(1, static_cast<int32_t>(into.tokens.size()));
    return std::nullopt;
}

}  // namespace ringshard::data
