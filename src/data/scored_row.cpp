#include "scored_row.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/data/token_store.hpp"
#include "row_columns.hpp"

namespace ringshard::data {

using text::Value;

Expected<DatasetFormat> find_labelled(const Value& row, const FormatSettings& settings) {
    const auto refuse = [](const std::string& what) { return Failure{ExitCode::bad_data, what}; };
    if (row.find("label") == nullptr)
        return refuse(
            R"(method = classification: there is no column label; column_map: {"label": "NAME"} )"
            "takes one by another name");
    const Value* const messages = row.find("messages");
    const bool is_chat = messages != nullptr && messages->list() != nullptr;
    const Value* const text = row.find(settings.text_field);
    if (!is_chat && (text == nullptr || text->string() == nullptr))
        return refuse(
            format_text("method = classification: there is no column {} (dataset_text_field) of "
                        R"(text, and no messages; column_map: {{"text": "NAME"}} takes one by )"
                        "another name",
                        settings.text_field));
    return DatasetFormat{.form = is_chat ? RowForm::labelled_chat : RowForm::labelled_text};
}

namespace {

// Of a model with a head of scores whose config.json names none: transformers leaves out two labels
// without names. 0: the model has no such head.
int64_t count_labels(const Value& config) {
    const Value* const classes = config.find("architectures");
    const bool has_one = classes != nullptr && classes->list() != nullptr &&
                         classes->list()->size() == 1 &&
                         classes->list()->front().string() != nullptr;
    if (!has_one || !classes->list()->front().string()->ends_with("ForSequenceClassification"))
        return 0;
    const Value* const count = config.find("num_labels");
    constexpr int64_t usual = 2;
    return count != nullptr && count->integer() != nullptr ? *count->integer() : usual;
}

}  // namespace

std::optional<Failure> take_labels_of_model(FormatSettings& settings) {
    if (!settings.content.is_scored || settings.content.is_pair || settings.num_labels > 0)
        return std::nullopt;
    const auto config = text::read_json(read_file(settings.tokenizer / "config.json").value_or(""));
    const Value* const names = config ? config.value().find("id2label") : nullptr;
    for (int64_t label = 0; names != nullptr && names->find(concat(label)) != nullptr; ++label) {
        const Value* const name = names->find(concat(label));
        settings.class_names.push_back(name->string() == nullptr ? concat(label) : *name->string());
    }
    settings.num_labels = settings.class_names.empty() && config ? count_labels(config.value())
                                                                 : std::ssize(settings.class_names);
    constexpr int64_t most_of_set = std::numeric_limits<int32_t>::digits;
    if (settings.has_label_sets && settings.num_labels > most_of_set)
        return Failure{ExitCode::settings,
                       format_text("problem_type: the config.json of {} names {} labels, and a "
                                   "document has several labels of at most {}; take a model with "
                                   "fewer",
                                   settings.tokenizer.string(), settings.num_labels, most_of_set)};
    if (settings.num_labels > (settings.has_label_sets ? 0 : 1)) return std::nullopt;
    const char* const rule =
        settings.num_labels == 1
            ? "has one label, whose score is a number; say that documents have numbers: num_labels "
              "1, or how many labels they have"
            : "names no labels (id2label); say how many there are, or name them: class_names";
    return Failure{ExitCode::settings, format_text("num_labels: the config.json of {} {}",
                                                   settings.tokenizer.string(), rule)};
}

std::optional<Failure> take_pooling_of_model(FormatSettings& settings) {
    const auto file = settings.tokenizer / "1_Pooling" / "config.json";
    if (!file_exists(file)) return std::nullopt;
    const auto config = text::read_json(read_file(file).value_or(""));
    std::vector<std::string> modes;
    if (const Value* const mode = config ? config.value().find("pooling_mode") : nullptr)
        modes.push_back(mode->string() != nullptr ? *mode->string() : mode->kind());
    else if (config && config.value().object() != nullptr)
        for (const auto& [name, value] : *config.value().object())
            if (name.starts_with("pooling_mode_") && value.truth() != nullptr && *value.truth())
                modes.push_back(name.substr(std::string_view("pooling_mode_").size()));
    using config::Pooling;
    const std::map<std::string, Pooling> known{{"lasttoken", Pooling::lasttoken},
                                               {"cls", Pooling::cls},
                                               {"cls_token", Pooling::cls},
                                               {"mean", Pooling::mean},
                                               {"mean_tokens", Pooling::mean}};
    if (modes.size() != 1 || !known.contains(modes.front()))
        return Failure{ExitCode::settings,
                       format_text("{}: the pooling is {}, and lasttoken, cls and mean are served; "
                                   "give one of these: pooling",
                                   file.string(), modes.empty() ? "none" : join(modes, ", "))};
    settings.content.pooling = known.at(modes.front());
    return std::nullopt;
}

Expected<float> read_number(const Value& row, const char* column) {
    const Value* const found = row.find(column);
    if (found == nullptr) return bad_row(format_text("has no column {}", column));
    const int64_t* const whole = found->integer();
    const double* const real = found->real();
    if (whole == nullptr && real == nullptr)
        return bad_row(format_text("{} is {}, where a number is needed{}", column, found->kind(),
                                   std::string_view(column) == "label" ? " (num_labels = 1)" : ""));
    const auto number = static_cast<float>(whole != nullptr ? static_cast<double>(*whole) : *real);
    if (!std::isfinite(number)) return bad_row(format_text("{} is no finite number", column));
    return number;
}

namespace {

Expected<int32_t> number_of_label(const Value& label, const FormatSettings& settings) {
    const std::vector<std::string>& names = settings.class_names;
    if (const std::string* const name = label.string()) {
        const auto found = std::ranges::find(names, *name);
        if (found != names.end()) return static_cast<int32_t>(found - names.begin());
        return bad_row(
            names.empty()
                ? "label is text; class_names lists the names in the order of the labels"
                : format_text("label is {}; class_names has {}", *name, join(names, ", ")));
    }
    const int64_t* const number = label.integer();
    if (number == nullptr)
        return bad_row(
            format_text("label is {}, where a whole number or a name is needed", label.kind()));
    if (*number < 0 || *number >= settings.num_labels)
        return bad_row(format_text("label is {}; with num_labels = {} it is one of 0 to {}",
                                   *number, settings.num_labels, settings.num_labels - 1));
    return static_cast<int32_t>(*number);
}

// Whether a list says of each label if the document has it, as transformers takes labels.
bool says_yes_or_no(const Value::List& labels) {
    return !labels.empty() && std::ranges::all_of(labels, [](const Value& one) {
        return one.truth() != nullptr || one.real() != nullptr;
    });
}

Expected<int32_t> bits_of_answers(const Value::List& labels, const FormatSettings& settings) {
    if (std::ssize(labels) != settings.num_labels)
        return bad_row(format_text("label has {} numbers, and num_labels is {}", labels.size(),
                                   settings.num_labels));
    int32_t bits = 0;
    for (size_t label = 0; label < labels.size(); ++label) {
        const bool* const truth = labels[label].truth();
        const double number = truth != nullptr ? (*truth ? 1 : 0) : *labels[label].real();
        if (number != 0 && number != 1)
            return bad_row(
                format_text("label has {}, where 0.0 and 1.0 say of each label whether "
                            "the document has it",
                            number));
        if (number == 1) bits |= 1 << label;
    }
    return bits;
}

Expected<int32_t> bits_of_labels(const Value& label, const FormatSettings& settings) {
    const Value::List* const labels = label.list();
    if (labels == nullptr)
        return bad_row(
            format_text("label is {}, where a list of labels is needed (problem_type "
                        "multi_label_classification)",
                        label.kind()));
    if (says_yes_or_no(*labels)) return bits_of_answers(*labels, settings);
    int32_t bits = 0;
    for (const Value& one : *labels) {
        const auto number = number_of_label(one, settings);
        if (!number) return number;
        const int32_t bit = 1 << number.value();
        if ((bits & bit) != 0)
            return bad_row(
                format_text("label names {} twice; where the list says of each label "
                            "whether the document has it, give 0.0 and 1.0",
                            number.value()));
        bits |= bit;
    }
    return bits;
}

}  // namespace

Expected<int32_t> read_label(const Value& row, const FormatSettings& settings) {
    const Value* const label = row.find("label");
    if (label == nullptr) return bad_row("has no column label");
    return settings.has_label_sets ? bits_of_labels(*label, settings)
                                   : number_of_label(*label, settings);
}

void label_document(int32_t label, int32_t padding, size_t first, EncodedRow& into) {
    into.labels.resize(into.tokens.size(), no_label);
    for (size_t token = first; token < into.tokens.size(); ++token)
        into.labels[token] = into.tokens[token] == padding ? no_label : label;
    const auto of_document = std::span(into.labels).subspan(first);
    const bool is_padding = std::ranges::count(of_document, no_label) == std::ssize(of_document);
    if (is_padding && !of_document.empty()) of_document.front() = label;
}

}  // namespace ringshard::data
