#include <algorithm>
#include <iostream>

#include "inspect_checkpoint.hpp"
#include "inspect_step.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/cli/front_commands.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/data/rows.hpp"
#include "ringshard/data/text_tools.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::cli {

namespace {

namespace fs = std::filesystem;
using text::Value;

struct Args {
    fs::path path;
    fs::path tokenizer;  // empty: the one that the data was made with
    int64_t first = 0;
    std::optional<int64_t> rows;  // else 3, or 20 documents of a step
    std::optional<int64_t> step;  // of a run
    bool as_json = false;
    bool is_full = false;

    bool shows_rows() const { return rows || first > 0 || is_full || !tokenizer.empty(); }
};

Failure usage(const std::string& what) {
    return {ExitCode::usage, format_text("{}; trainer inspect PATH [--rows N] [--first N] [--full] "
                                         "[--json] [--model_name_or_path FOLDER]; trainer inspect "
                                         "RUN --step N [--rows N] [--json]",
                                         what)};
}

Expected<Args> parse_args(const std::vector<std::string>& flags) {
    Args args;
    const auto count = [](const std::string& text) {
        const auto number = read_whole_number(text);
        return number && *number >= 0 ? Expected(*number)
                                      : usage(format_text("'{}' is no number from 0 on", text));
    };
    for (size_t i = 0; i < flags.size(); ++i) {
        const size_t equals = flags[i].find('=');
        const std::string name = flags[i].substr(0, equals);
        if (name == "--json" || name == "--full") {
            (name == "--json" ? args.as_json : args.is_full) = true;
            continue;
        }
        if (!name.starts_with("--")) {
            args.path = flags[i];
            continue;
        }
        if (name != "--model_name_or_path" && name != "--rows" && name != "--first" &&
            name != "--step")
            return usage(format_text("there is no {}", name));
        if (equals == std::string::npos && i + 1 == flags.size())
            return usage(format_text("{} has no value", name));
        const std::string value =
            equals == std::string::npos ? flags[++i] : flags[i].substr(equals + 1);
        if (name == "--model_name_or_path") {
            args.tokenizer = value;
            continue;
        }
        const auto number = count(value);
        if (!number) return number.failure();
        if (name == "--rows") args.rows = number.value();
        if (name == "--first") args.first = number.value();
        if (name == "--step") args.step = number.value();
    }
    if (args.path.empty()) return usage("name what to inspect");
    if (args.step && (args.first > 0 || args.is_full || !args.tokenizer.empty()))
        return usage("--step shows the documents of a step, with --rows and --json alone");
    return args;
}

// A member of a JSON object as text; empty if it is not there.
std::string text_at(const Value& about, const char* name) {
    const Value* member = about.find(name);
    return member != nullptr && member->string() != nullptr ? *member->string() : "";
}

// A document of a row, with labels as they are in a dataset: of each token, not of the next one.
struct Document {
    std::vector<int32_t> tokens;
    std::vector<int32_t> labels;
    std::vector<float> weights;  // empty: 1 each
};

// Of a document that is scored whole, whose label counts at the last of the tokens that have it.
void keep_last_label(std::vector<int32_t>& labels) {
    const auto last = std::ranges::find_if(labels.rbegin(), labels.rend(),
                                           [](int32_t label) { return label != data::no_label; });
    if (last != labels.rend()) std::fill(labels.begin(), last.base() - 1, data::no_label);
}

std::vector<Document> documents_of(const data::Rows& rows, int64_t row) {
    std::vector<Document> documents;
    for (const data::Piece& piece : rows.pieces(row)) {
        if (piece.goes_on == 0) documents.emplace_back();
        rows.store().check_ids(piece.begin, piece.length);
        for (uint64_t at = piece.begin; at < piece.begin + piece.length; ++at) {
            documents.back().tokens.push_back(rows.store().token(at));
            documents.back().labels.push_back(rows.store().label(at));
            if (rows.store().has_weights())
                documents.back().weights.push_back(rows.store().weight(at));
        }
    }
    if (rows.content().is_scored)
        for (Document& document : documents) keep_last_label(document.labels);
    return documents;
}

class RowPrinter {
public:
    RowPrinter(const data::Rows& rows, const text::Tokenizer* tokenizer, bool is_full)
        : rows_(rows), tokenizer_(tokenizer), is_full_(is_full) {}

    std::string as_json(int64_t row) const {
        std::vector<int32_t> tokens;
        std::vector<int32_t> labels;
        Value::List weights;
        std::vector<int32_t> lengths;
        for (const Document& document : documents_of(rows_, row)) {
            tokens.insert(tokens.end(), document.tokens.begin(), document.tokens.end());
            labels.insert(labels.end(), document.labels.begin(), document.labels.end());
            for (const float weight : document.weights)
                weights.emplace_back(static_cast<double>(weight));
            lengths.push_back(static_cast<int32_t>(document.tokens.size()));
        }
        Value line(Value::Object{{"row", Value(row)},
                                 {"input_ids", text::to_list(tokens)},
                                 {"labels", text::to_list(labels)},
                                 {"seq_lengths", text::to_list(lengths)}});
        if (!weights.empty()) line.set("weights", Value(std::move(weights)));
        if (tokenizer_ != nullptr) line.set("text", Value(decode(tokens)));
        return to_json(line);
    }

    // The text with learned tokens in brackets, then ids, labels and weights.
    std::string for_people(int64_t row) const {
        std::string out;
        const auto documents = documents_of(rows_, row);
        out += format_text("row {}: {} tokens, {}{}", row, rows_.length(row), documents.size(),
                           documents.size() == 1 ? " document\n" : " documents\n");
        for (size_t i = 0; i < documents.size(); ++i) {
            const auto& [tokens, labels, weights] = documents[i];
            const auto unlearned = std::ranges::count(labels, data::no_label);
            out += format_text("  document {}: {} tokens, {} learned\n", i + 1, tokens.size(),
                               static_cast<int64_t>(tokens.size()) - unlearned);
            if (tokenizer_ != nullptr) out += "    text    " + marked_text(documents[i]) + "\n";
            out += "    ids     " + list(tokens) + "\n    labels  " + list(labels) + "\n";
            if (!weights.empty()) out += "    weights " + list(weights) + "\n";
        }
        return out;
    }

private:
    std::string decode(std::span<const int32_t> tokens) const {
        return tokenizer_->decode(tokens, text::Decoding::everything);
    }
    // A long list by its first and its last items.
    template <class Number>
    std::string list(const std::vector<Number>& items) const {
        constexpr size_t at_each_end = 8;
        const bool is_cut = !is_full_ && items.size() > 2 * at_each_end + 1;
        std::vector<std::string> texts;
        for (size_t i = 0; i < items.size(); ++i) {
            texts.push_back(concat(items[i]));
            if (!is_cut || i + 1 != at_each_end) continue;
            i = items.size() - at_each_end - 1;
            texts.push_back(
                format_text("... ({} more, --full) ...", items.size() - 2 * at_each_end));
        }
        return join(texts, " ");
    }
    std::string marked_text(const Document& document) const {
        std::string out;
        for (size_t begin = 0; begin < document.tokens.size();) {
            const bool is_learned = document.labels[begin] != data::no_label;
            size_t end = begin;
            while (end < document.tokens.size() &&
                   (document.labels[end] != data::no_label) == is_learned)
                ++end;
            const std::string part = decode(std::span(document.tokens).subspan(begin, end - begin));
            out += is_learned ? "[[" + part + "]]" : part;
            begin = end;
        }
        std::string indented;
        for (const char c : out)
            indented += c == '\n' ? std::string("\n            ") : std::string(1, c);
        return indented;
    }

    const data::Rows& rows_;
    const text::Tokenizer* tokenizer_;
    bool is_full_;
};

// The tokenizer that rows were made with, and the tokens that were added to it.
data::FormatSettings tokenizer_of(const Value& about) {
    data::FormatSettings format{.tokenizer = text_at(about, "tokenizer")};
    const fs::path source = text_at(about, "chat_template_folder");
    if (folder_exists(source)) format.chat_template = source;
    if (const Value* const tokens = about.find("added_tokens"); tokens != nullptr)
        if (const Value::List* const list = tokens->list())
            for (const Value& token : *list)
                if (token.string() != nullptr) format.added_tokens.push_back(*token.string());
    return format;
}

int inspect_rows(const Args& args, const data::ArrayFile& plan) {
    const auto about = text::read_json(plan.about());
    const std::string store_name = about ? text_at(about.value(), "tokens_file") : "";
    if (store_name.empty())
        return report_failure(
            {ExitCode::bad_data, format_text("{} holds tokens and no rows; inspect the file "
                                             "rows-... beside it, which `trainer prepare` names",
                                             args.path.string())});
    const auto rows = data::Rows::map(args.path.parent_path() / store_name, args.path);
    if (!rows) return report_failure(rows.failure());
    data::FormatSettings format{.tokenizer = args.tokenizer};
    if (format.tokenizer.empty())
        if (const auto made = text::read_json(rows.value().store().about()))
            format = tokenizer_of(made.value());
    std::optional<data::TextTools> tools;
    if (file_exists(format.tokenizer / "tokenizer.json") ||
        file_exists(format.tokenizer / "tekken.json")) {
        auto loaded = data::TextTools::load(format, data::TextTools::Template::not_needed);
        if (!loaded) return report_failure(loaded.failure());
        tools.emplace(std::move(loaded).value());
    }
    const RowPrinter printer(rows.value(), tools ? &tools->tokenizer() : nullptr, args.is_full);
    const int64_t end = std::min(rows.value().size(), args.first + args.rows.value_or(3));
    for (int64_t row = args.first; row < end; ++row)
        std::cout << (args.as_json ? printer.as_json(row) + "\n" : printer.for_people(row));
    if (!args.as_json) std::cout << format_text("{} rows in all\n", rows.value().size());
    return number(ExitCode::done);
}

// Everything of a JSON file but long lists.
int print_members(const Args& args, const fs::path& file) {
    const auto content = text::read_json(read_file(file).value_or(""));
    if (!content || content.value().object() == nullptr)
        return report_failure(
            {ExitCode::bad_data, format_text("{} is no JSON object", file.string())});
    if (args.as_json) {
        std::cout << to_json(content.value()) << '\n';
        return number(ExitCode::done);
    }
    for (const auto& [name, value] : *content.value().object()) {
        const bool is_long = value.list() != nullptr && value.list()->size() > 8;
        std::cout << name << ": "
                  << (is_long ? format_text("{} entries", value.list()->size()) : to_json(value))
                  << '\n';
    }
    return number(ExitCode::done);
}

}  // namespace

int inspect(const Invocation& invocation) {
    const auto args = parse_args(invocation.flags);
    if (!args) return report_failure(args.failure());
    const fs::path& path = args.value().path;
    if (args.value().step)
        return inspect_step({.run = path,
                             .step = *args.value().step,
                             .most = args.value().rows.value_or(20),
                             .as_json = args.value().as_json});
    if (folder_exists(path)) {
        if (args.value().shows_rows())
            return report_failure(
                usage(format_text("{} is a folder, which has --json alone", path.string())));
        const std::string name = without_slash(path).filename();
        if (file_exists(path / "manifest.json") || name.starts_with("checkpoint-"))
            return inspect_checkpoint(path, args.value().as_json);
        if (is_run(path)) return inspect_run(path, args.value().as_json);
        if (file_exists(path / "config.json"))
            return print_members(args.value(), path / "config.json");
        return report_failure(
            {ExitCode::bad_data,
             format_text("{} is no folder of a checkpoint or a model", path.string())});
    }
    if (!file_exists(path))
        return report_failure(
            {ExitCode::missing_input, format_text("{}: there is no such file", path.string())});
    const auto plan = data::ArrayFile::map(path);
    return plan ? inspect_rows(args.value(), plan.value()) : report_failure(plan.failure());
}

}  // namespace ringshard::cli
