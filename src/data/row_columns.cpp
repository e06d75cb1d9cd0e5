#include "row_columns.hpp"

#include <algorithm>
#include <cmath>

#include "message_loss.hpp"
#include "ringshard/data/token_store.hpp"

namespace ringshard::data {

using text::Value;

namespace {

// Reads whole numbers of at least `least` from a column.
std::optional<Failure> read_numbers(const Value& column, const char* name, int64_t least,
                                    std::vector<int32_t>& into) {
    if (column.list() == nullptr)
        return bad_row(format_text("{} is {}, where a list is needed", name, column.kind()));
    into.clear();
    into.reserve(column.list()->size());
    for (const Value& item : *column.list()) {
        const int64_t* number = item.integer();
        if (number == nullptr)
            return bad_row(
                format_text("{} holds {}, where whole numbers are needed", name, item.kind()));
        if (*number < least || *number > INT32_MAX || (*number < 0 && *number != no_label))
            return bad_row(format_text("{} holds {}, which is no token{}", name, *number,
                                       least < 0 ? " and not -100" : ""));
        into.push_back(static_cast<int32_t>(*number));
    }
    return std::nullopt;
}

// Sets labels to no_label where the mask is 0.
std::optional<Failure> apply_mask(const Value& row, const char* name, EncodedRow& into) {
    const Value* column = row.find(name);
    if (column == nullptr) return bad_row(format_text("has no column {}", name));
    std::vector<int32_t> mask;
    if (column->list() != nullptr && !column->list()->empty() && column->list()->front().truth())
        for (const Value& item : *column->list())
            mask.push_back(item.truth() != nullptr && *item.truth() ? 1 : 0);
    else if (auto failure = read_numbers(*column, name, 0, mask))
        return failure;
    if (mask.size() != into.tokens.size())
        return bad_row(format_text("{} has {} entries for {} input_ids", name, mask.size(),
                                   into.tokens.size()));
    for (size_t i = 0; i < mask.size(); ++i)
        if (mask[i] == 0) into.labels[i] = no_label;
    return std::nullopt;
}

// Reads the weights of the tokens' losses. A token of weight 0 has no loss.
std::optional<Failure> read_weights(const Value& column, EncodedRow& into) {
    if (column.list() == nullptr)
        return bad_row(format_text("weights is {}, where a list is needed", column.kind()));
    if (column.list()->size() != into.tokens.size())
        return bad_row(format_text("has {} weights for {} input_ids", column.list()->size(),
                                   into.tokens.size()));
    for (size_t i = 0; i < into.tokens.size(); ++i) {
        const Value& item = (*column.list())[i];
        if (item.real() == nullptr && item.integer() == nullptr)
            return bad_row(format_text("weights holds {}, where numbers are needed", item.kind()));
        const double weight =
            item.real() != nullptr ? *item.real() : static_cast<double>(*item.integer());
        const auto rounded = static_cast<float>(weight);
        if (!std::isfinite(rounded) || rounded < 0)
            return bad_row(
                format_text("weights holds {}, and a weight is finite and not below 0", weight));
        if (rounded == 0) into.labels[i] = no_label;
        into.weights.push_back(rounded);
    }
    return std::nullopt;
}

}  // namespace

std::optional<Failure> read_text(const Value& row, const std::string& column, std::string& into) {
    const Value* value = row.find(column);
    if (value == nullptr) return bad_row(format_text("has no column {}", column));
    if (value->string() == nullptr)
        return bad_row(format_text("{} is {}, where text is needed", column, value->kind()));
    into = *value->string();
    return std::nullopt;
}

void add_system_message(const std::string& system_prompt, Value& messages) {
    if (system_prompt.empty() || messages.list() == nullptr) return;
    Value::List& list = *messages.list();
    const Value* role = list.empty() ? nullptr : list.front().find("role");
    if (role != nullptr && role->string() != nullptr &&
        (*role->string() == "system" || *role->string() == "developer"))
        return;
    list.insert(list.begin(), Value(Value::Object{{"role", Value(std::string("system"))},
                                                  {"content", Value(system_prompt)}}));
}

Expected<Value> read_messages(const Value& row, const char* column, bool is_share_gpt) {
    const Value* value = row.find(column);
    if (value == nullptr || value->list() == nullptr)
        return bad_row(format_text("{} is {}, where a list of messages is needed", column,
                                   value == nullptr ? "not there" : value->kind()));
    Value messages = *value;
    size_t number = 0;
    for (Value& message : *messages.list()) {
        ++number;
        if (message.object() == nullptr)
            return bad_row(
                format_text("message {} is {}, where an object is needed", number, message.kind()));
        if (is_share_gpt)
            for (auto& [name, member] : *message.object())
                name = name == "from" ? "role" : name == "value" ? "content" : name;
        const Value* role = message.find("role");
        if (role == nullptr || role->string() == nullptr)
            return bad_row(format_text(
                "message {} has {}", number,
                role == nullptr
                    ? "no role"
                    : format_text("a role that is {}, where text is needed", role->kind())));
    }
    return messages;
}

std::optional<Failure> read_pretokenized(const Value& row, const DatasetFormat& format,
                                         EncodedRow& into) {
    const Value* ids = row.find("input_ids");
    if (ids == nullptr) return bad_row("has no column input_ids");
    if (auto failure = read_numbers(*ids, "input_ids", 0, into.tokens)) return failure;
    into.labels = into.tokens;
    if (const Value* labels = row.find("labels"); labels != nullptr && !labels->is_null()) {
        if (auto failure = read_numbers(*labels, "labels", no_label, into.labels)) return failure;
        if (into.labels.size() != into.tokens.size())
            return bad_row(format_text("has {} labels for {} input_ids", into.labels.size(),
                                       into.tokens.size()));
    }
    if (format.uses_completion_mask)
        if (auto failure = apply_mask(row, "completion_mask", into)) return failure;
    if (format.uses_assistant_mask)
        if (auto failure = apply_mask(row, "assistant_masks", into)) return failure;
    if (const Value* weights = row.find("weights"); weights != nullptr && !weights->is_null())
        if (auto failure = read_weights(*weights, into)) return failure;
    const Value* lengths = row.find("seq_lengths");
    if (lengths == nullptr || lengths->is_null()) return std::nullopt;
    if (auto failure = read_numbers(*lengths, "seq_lengths", 0, into.document_lengths))
        return failure;
    int64_t total = 0;
    for (const int32_t length : into.document_lengths) total += length;
    if (total != static_cast<int64_t>(into.tokens.size()))
        return bad_row(format_text("has seq_lengths of {} tokens in all for {} input_ids", total,
                                   into.tokens.size()));
    return std::nullopt;
}

std::optional<Failure> apply_judgement(const Value& row, EncodedRow& into) {
    const Value* const label = row.find("label");
    const bool* const says = label == nullptr ? nullptr : label->truth();
    const int64_t* const number = label == nullptr ? nullptr : label->integer();
    if (says == nullptr && (number == nullptr || *number < 0 || *number > 1))
        return bad_row(format_text("label is {}, where true or false is needed",
                                   label == nullptr    ? "missing"
                                   : number == nullptr ? label->kind()
                                                       : concat(*number)));
    if (std::ranges::count(into.labels, no_label) == std::ssize(into.labels))
        return bad_row("completion has no token of an answer");
    const bool is_desirable = says != nullptr ? *says : *number == 1;
    if (!is_desirable) into.weights.assign(into.tokens.size(), -1.0F);
    return std::nullopt;
}

std::optional<Failure> apply_row_weight(const Value& row, EncodedRow& into) {
    const Value* column = row.find("weight");
    if (column == nullptr || column->is_null()) return std::nullopt;
    const auto weight = read_weight(*column, "weight");
    if (!weight) return weight.failure();
    if (weight.value() == 1) return std::nullopt;
    if (weight.value() == 0) std::ranges::fill(into.labels, no_label);
    if (into.weights.empty()) into.weights.assign(into.tokens.size(), 1.0F);
    for (float& of_token : into.weights) of_token *= weight.value();
    return std::nullopt;
}

std::optional<Failure> record_unused_columns(const Value& row, const DatasetFormat& format,
                                             bool text_only, EncodedRow& into) {
    for (const auto& [name, value] : *row.object()) {
        if (std::ranges::find(format.used_columns, name) != format.used_columns.end()) continue;
        const bool has_media = is_media_column(name) && holds_media(value);
        if (has_media && !text_only)
            return refuse_media(format_text("the column {} is filled", name));
        if (has_media)
            into.unused.push_back({Unused::Kind::media, "column " + name});
        else if (!is_media_column(name))
            into.unused.push_back({Unused::Kind::column, name});
    }
    return std::nullopt;
}

}  // namespace ringshard::data
