#include "ringshard/data/format.hpp"

#include "scored_row.hpp"
#include "unpaired.hpp"

namespace ringshard::data {

using text::Value;

std::vector<std::string> known_columns(const FormatSettings& settings) {
    std::vector<std::string> columns{settings.text_field,
                                     "messages",
                                     "conversations",
                                     "prompt",
                                     "completion",
                                     "chosen",
                                     "rejected",
                                     "tools",
                                     "chat_template_kwargs",
                                     "input_ids",
                                     "labels",
                                     "completion_mask",
                                     "assistant_masks",
                                     "seq_lengths",
                                     "weights",
                                     "weight",
                                     "instruction",
                                     "input",
                                     "output",
                                     "segments",
                                     "joined"};
    if (settings.content.is_scored)
        columns.insert(columns.end(), {"label", "margin", "add_generation_prompt"});
    if (settings.content.is_judged) columns.emplace_back("label");
    if (settings.content.is_embedded)
        columns.insert(columns.end(), {"anchor", "positive", "negative"});
    return columns;
}

std::vector<std::string> all_columns() {
    FormatSettings settings;
    settings.content.is_scored = settings.content.is_embedded = true;
    return known_columns(settings);
}

namespace {

// Returns true if a column is a list whose first item is an object with this member.
bool is_list_of(const Value* column, const char* member) {
    const Value::List* items = column == nullptr ? nullptr : column->list();
    return items != nullptr && !items->empty() && items->front().find(member) != nullptr;
}

Failure refuse(const std::string& message) { return {ExitCode::bad_data, message}; }

Expected<DatasetFormat> find_pretokenized(const Value& row, const FormatSettings& settings) {
    DatasetFormat format{.form = RowForm::pretokenized};
    if (settings.assistant_only_loss)
        return refuse(
            "assistant_only_loss = true is for conversations, and the rows are tokens already "
            "(input_ids); a column assistant_masks is used without it");
    if (!settings.loss_scale.empty() || !settings.agent_template.empty())
        return refuse(
            format_text("{} is for conversations, and the rows are tokens already (input_ids); "
                        "labels or weights beside them say what is learned",
                        settings.loss_scale.empty() ? "agent_template" : "loss_scale"));
    if (settings.chooses_messages() || !settings.mask_reasoning.empty())
        return refuse(
            format_text("{}, and the rows are tokens already (input_ids); labels or weights beside "
                        "them say what is learned",
                        !settings.roles_to_train.empty() ? "roles_to_train is for conversations"
                        : settings.train_on_last_turn_only
                            ? "train_on_last_turn_only = true is for conversations"
                            : "mask_reasoning is for conversations and texts"));
    const bool has_labels = row.find("labels") != nullptr;
    const bool has_mask = row.find("completion_mask") != nullptr;
    // If the source columns of the tokens are still present, they decide like they do without
    // tokens.
    const bool has_source = row.find("prompt") != nullptr && row.find("completion") != nullptr;
    format.uses_assistant_mask = !has_labels && row.find("assistant_masks") != nullptr;
    format.uses_completion_mask =
        !has_labels && has_mask && settings.completion_only_loss.value_or(has_source);
    if (has_mask && !has_labels && !has_source && !settings.completion_only_loss)
        format.warnings.emplace_back(
            "the rows have a completion_mask, which is not used, as in TRL: all tokens are "
            "learned; "
            "set completion_only_loss = true to learn completions only");
    if (has_labels && (has_mask || row.find("assistant_masks") != nullptr))
        format.warnings.emplace_back("the rows have labels, so their masks are not used");
    return format;
}

Expected<DatasetFormat> find_prompt_completion(const Value& row, const FormatSettings& settings) {
    const Value* prompt = row.find("prompt");
    const Value* completion = row.find("completion");
    if (completion == nullptr)
        return refuse(
            format_text("there is a column prompt and no column completion; the columns are {}",
                        column_names(row)));
    DatasetFormat format{
        .uses_completion_mask = settings.completion_only_loss.value_or(true),
        .uses_assistant_mask = settings.assistant_only_loss,
    };
    if (is_list_of(prompt, "role") && is_list_of(completion, "role")) {
        format.form = RowForm::chat_prompt_completion;
    } else if (prompt->string() != nullptr && completion->string() != nullptr) {
        format.form = RowForm::prompt_completion;
    } else {
        return refuse(
            format_text("prompt is {} and completion is {}; both have to be text, or both lists of "
                        "messages with role and content",
                        prompt->kind(), completion->kind()));
    }
    return format;
}

// A prompt of text beside conversations is a copy of their beginning.
bool has_prompt_of_its_own(const Value& row, bool are_chats) {
    const Value* prompt = row.find("prompt");
    if (prompt == nullptr || prompt->is_null()) return false;
    return !are_chats || prompt->string() == nullptr;
}

Expected<DatasetFormat> find_pair(const Value& row, bool is_scored) {
    const Value* chosen = row.find("chosen");
    const Value* rejected = row.find("rejected");
    if (chosen == nullptr || rejected == nullptr)
        return refuse(
            format_text("the rows are to be pairs (method), and there is no column {}; a row is a "
                        "prompt with a chosen and a rejected answer, and the columns are {}",
                        chosen == nullptr ? "chosen" : "rejected", column_names(row)));
    DatasetFormat format{.form = RowForm::pair, .uses_completion_mask = !is_scored};
    const bool are_chats = is_list_of(chosen, "role") && is_list_of(rejected, "role");
    if (are_chats) format.form = RowForm::chat_pair;
    if (!are_chats && (chosen->string() == nullptr || rejected->string() == nullptr))
        return refuse(
            format_text("chosen is {} and rejected is {}; both have to be text, or both lists of "
                        "messages with role and content",
                        chosen->kind(), rejected->kind()));
    format.has_prompt = has_prompt_of_its_own(row, are_chats);
    const Value* prompt = row.find("prompt");
    if (format.has_prompt &&
        (are_chats ? !is_list_of(prompt, "role") : prompt->string() == nullptr))
        return refuse(
            format_text("prompt is {}, and chosen and rejected are {}; all have to be of "
                        "one kind, text or messages",
                        prompt->kind(), are_chats ? "lists of messages" : "text"));
    return format;
}

// The format of texts that belong together.
Expected<DatasetFormat> find_texts(const Value& row) {
    for (const char* column : {"anchor", "positive"})
        if (row.find(column) == nullptr)
            return refuse(
                format_text("the rows are to be texts that belong together (method = embedding), "
                            "and there is no column {}; a row has anchor, positive and, if there "
                            "is one, negative (a text or a list), and the columns are {}; "
                            R"(column_map: {{"anchor": "NAME"}} takes one by another name)",
                            column, column_names(row)));
    return DatasetFormat{.form = RowForm::texts};
}

// The format of single answers, with a label that says whether they are desirable.
Expected<DatasetFormat> find_judged(const Value& row, const FormatSettings& settings) {
    if (is_pair_of_answers(row)) {
        const auto answers = take_apart(row);
        if (!answers) return answers.failure();
        auto format = find_prompt_completion(answers.value().front(), settings);
        if (!format) return format;
        format.value().is_taken_apart = true;
        format.value().warnings.emplace_back(
            "the rows are pairs of answers: each becomes a desirable one (chosen) and an "
            "undesirable one (rejected)");
        return format;
    }
    if (row.find("prompt") == nullptr || row.find("label") == nullptr)
        return refuse(
            format_text("the rows are to be answers (method = kto), and there is no column {}; a "
                        "row has prompt, completion, and label (true or false), and the columns "
                        R"(are {}; column_map: {{"label": "NAME"}} takes one by another name)",
                        row.find("label") == nullptr ? "label" : "prompt", column_names(row)));
    return find_prompt_completion(row, settings);
}

Expected<DatasetFormat> find_chat(const Value& messages, const FormatSettings& settings) {
    DatasetFormat format{.form = RowForm::chat,
                         .uses_assistant_mask = settings.assistant_only_loss};
    format.is_share_gpt = is_list_of(&messages, "from") && is_list_of(&messages, "value");
    if (messages.list() != nullptr && messages.list()->empty())
        return refuse("messages is empty; it has to hold messages with role and content");
    if (!format.is_share_gpt && !is_list_of(&messages, "role"))
        return refuse(
            format_text("messages is {}; it has to be a list of messages with role and content",
                        messages.kind()));
    if (format.is_share_gpt)
        format.warnings.emplace_back(
            "the messages have from and value, which are taken as role and content; the names of "
            "the roles reach the chat template unchanged, as in TRL: human and gpt are not user "
            "and assistant; --role_key from --content_key value --roles "
            "'{\"user\": \"human\", \"assistant\": \"gpt\"}' gives them the template's names");
    return format;
}

bool is_text(const Value* column) { return column != nullptr && column->string() != nullptr; }

// Returns the format of Stanford's Alpaca: columns instruction, output and optionally input.
DatasetFormat alpaca_format(const FormatSettings& settings) {
    return {.form = RowForm::alpaca,
            .uses_completion_mask = settings.completion_only_loss.value_or(true),
            .uses_assistant_mask = settings.assistant_only_loss};
}

// Returns the columns that rows of a form consist of.
std::vector<std::string> columns_of(const DatasetFormat& format, const FormatSettings& settings) {
    switch (format.form) {
        case RowForm::pretokenized: {
            std::vector<std::string> columns{"input_ids", "labels", "seq_lengths", "weights"};
            if (format.uses_completion_mask) columns.emplace_back("completion_mask");
            if (format.uses_assistant_mask) columns.emplace_back("assistant_masks");
            return columns;
        }
        case RowForm::text: return {settings.text_field};
        case RowForm::chat: return {"messages", "conversations", "tools", "chat_template_kwargs"};
        case RowForm::prompt_completion: return {"prompt", "completion"};
        case RowForm::chat_prompt_completion:
            return {"prompt", "completion", "tools", "chat_template_kwargs"};
        case RowForm::alpaca: return {"instruction", "input", "output"};
        case RowForm::segments: return {"segments", "joined"};
        case RowForm::pair:
        case RowForm::chat_pair: {
            std::vector<std::string> columns{"chosen", "rejected", "tools", "chat_template_kwargs"};
            if (format.form == RowForm::pair) columns.resize(2);
            if (format.has_prompt) columns.emplace_back("prompt");
            return columns;
        }
        case RowForm::texts: return {"anchor", "positive", "negative"};
        case RowForm::labelled_text: return {settings.text_field, "label"};
        case RowForm::labelled_chat:
            return {"messages", "label", "add_generation_prompt", "tools", "chat_template_kwargs"};
    }
    return {};
}

// Fails if the settings choose parts of conversations, and the rows have none.
std::optional<Failure> check_parts(const DatasetFormat& format, const FormatSettings& settings) {
    const bool is_plain = format.form == RowForm::text || format.form == RowForm::prompt_completion;
    if (format.form == RowForm::segments && !settings.mask_reasoning.empty())
        return refuse(
            "mask_reasoning is for conversations and texts, and the rows are segments, whose label "
            "says what is learned");
    if ((is_plain || format.form == RowForm::segments) &&
        (!settings.loss_scale.empty() || !settings.agent_template.empty()))
        return refuse(format_text(
            "{} is for conversations with role and content, and the rows are not; leave it out",
            settings.loss_scale.empty() ? "agent_template" : "loss_scale"));
    if (is_plain && settings.chooses_messages())
        return refuse(format_text(
            "{} is for conversations with role and content, and the rows are not; "
            R"(leave it out, or bring the rows into the form {{"messages": [{{"role": )"
            R"(..., "content": ...}}]}})",
            settings.roles_to_train.empty() ? "train_on_last_turn_only = true" : "roles_to_train"));
    if (is_plain && !settings.system_prompt.empty())
        return refuse(
            "system_prompt is for conversations with role and content, and the rows are not; leave "
            R"(it out, or bring the rows into the form {"messages": [{"role": ..., "content": )"
            "...}]}");
    if (settings.assistant_only_loss && (is_plain || format.is_share_gpt))
        return refuse(
            "assistant_only_loss = true is for conversations with role and content, and the rows "
            "are not; leave it out, or bring the rows into the form "
            R"({"messages": [{"role": ..., "content": ...}]})");
    return std::nullopt;
}

// Returns the format by the columns that a row has.
Expected<DatasetFormat> find_columns(const Value& row, const FormatSettings& settings) {
    const bool has_text = row.find(settings.text_field) != nullptr;
    // Like TRL: the text column takes precedence over a column conversations without from and
    // value.
    const Value* messages = row.find("messages");
    const Value* conversations = row.find("conversations");
    const bool gives_way = has_text && !is_list_of(conversations, "from");
    if ((messages == nullptr || messages->is_null()) && !gives_way) messages = conversations;
    if (is_list_of(row.find("segments"), "text")) return DatasetFormat{.form = RowForm::segments};
    const bool are_pairs = row.find("chosen") != nullptr && row.find("rejected") != nullptr;
    const bool has_example = messages != nullptr || has_text || row.find("completion") != nullptr;
    if (are_pairs && !has_example)
        return refuse(
            "the rows are pairs of answers, with columns chosen and rejected: train on them by "
            "`trainer dpo`");
    if (row.find("prompt") != nullptr) return find_prompt_completion(row, settings);
    if (messages != nullptr && !messages->is_null()) return find_chat(*messages, settings);
    if (has_text) return DatasetFormat();
    if (is_text(row.find("instruction")) && is_text(row.find("output")))
        return alpaca_format(settings);
    return refuse(
        format_text("there is no column {} (dataset_text_field), messages, prompt and "
                    "completion, instruction and output, conversations or input_ids; the "
                    R"(columns are {}; column_map: {{"text": "NAME"}} takes one by another name)",
                    settings.text_field, column_names(row)));
}

Expected<DatasetFormat> find_form(const Value& row, const FormatSettings& settings) {
    if (settings.content.is_pair) return find_pair(row, settings.content.is_scored);
    if (settings.content.is_judged) return find_judged(row, settings);
    if (settings.content.is_embedded) return find_texts(row);
    if (settings.content.is_scored) return find_labelled(row, settings);
    if (row.find("input_ids") != nullptr) return find_pretokenized(row, settings);
    Expected<DatasetFormat> format = find_columns(row, settings);
    if (!format) return format;
    if (auto failure = check_parts(format.value(), settings)) return *failure;
    if (row.find("weights") != nullptr)
        format.value().warnings.emplace_back(
            "the column weights is not used: it weights tokens, and stands beside input_ids");
    const RowForm form = format.value().form;
    if (settings.completion_only_loss.value_or(false) &&
        (form == RowForm::text || form == RowForm::chat))
        format.value().warnings.emplace_back(
            "completion_only_loss = true does nothing here, as in TRL: the rows have no prompt and "
            "completion");
    return format;
}

}  // namespace

Expected<DatasetFormat> find_format(const Value& row, const FormatSettings& settings) {
    auto format = find_form(row, settings);
    if (format) format.value().used_columns = columns_of(format.value(), settings);
    if (format && settings.content.is_judged) format.value().used_columns.emplace_back("label");
    if (format && format.value().is_taken_apart)
        for (const char* side : {"chosen", "rejected"})
            format.value().used_columns.emplace_back(side);
    if (format && settings.content.has_margins())
        format.value().used_columns.emplace_back("margin");
    const RowContent& content = settings.content;
    if (!format || content.has_documents() || content.has_answers() || content.weighs_by_label())
        return format;
    format.value().used_columns.emplace_back("weight");
    if (const Value* weight = row.find("weight"); weight != nullptr && !weight->is_null())
        format.value().warnings.emplace_back(
            "the rows have a column weight, which is the factor of the loss of each row's tokens; "
            "rename it if it means something else");
    return format;
}

}  // namespace ringshard::data
