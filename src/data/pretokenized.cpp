#include <simdjson.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "ringshard/data/token_rows.hpp"

namespace ringshard::data {

namespace {

namespace dom = simdjson::dom;

// One line, as far as it could be read.
struct Line {
    std::vector<int32_t> tokens;
    std::vector<int32_t> labels;
    std::vector<int32_t> lengths;
};

class LineReader {
public:
    explicit LineReader(int64_t vocabulary) : vocabulary_(vocabulary) {}

    // What is wrong with the line, or nothing.
    std::optional<std::string> read(const std::string& text_of_line, Line& line) {
        dom::object row;
        if (const auto error = parser_.parse(text_of_line).get(row))
            return concat("is not a JSON object: ", simdjson::error_message(error));
        dom::array ids;
        if (row["input_ids"].get(ids) != simdjson::SUCCESS)
            return concat("has no list input_ids; its columns are ", columns(row));
        if (const auto wrong = read_numbers(ids, "input_ids", 0, vocabulary_ - 1, line.tokens))
            return wrong;
        line.labels = line.tokens;
        if (dom::element labels;
            row["labels"].get(labels) == simdjson::SUCCESS && !labels.is_null()) {
            if (const auto wrong =
                    read_column(labels, "labels", -100, vocabulary_ - 1, line.labels))
                return wrong;
            if (line.labels.size() != line.tokens.size())
                return concat("has ", line.labels.size(), " labels for ", line.tokens.size(),
                              " input_ids");
        }
        line.lengths.assign(1, static_cast<int32_t>(line.tokens.size()));
        if (dom::element lengths;
            row["seq_lengths"].get(lengths) == simdjson::SUCCESS && !lengths.is_null()) {
            if (const auto wrong = read_column(lengths, "seq_lengths", 1, INT32_MAX, line.lengths))
                return wrong;
            int64_t total = 0;
            for (const int32_t length : line.lengths) total += length;
            if (total != static_cast<int64_t>(line.tokens.size()))
                return concat("has seq_lengths of ", total, " tokens in all for ",
                              line.tokens.size(), " input_ids");
        }
        return std::nullopt;
    }

private:
    static std::string columns(const dom::object& row) {
        std::vector<std::string> names;
        for (const auto field : row) names.emplace_back(field.key);
        return join(names, ", ");
    }
    static std::optional<std::string> read_column(const dom::element& column, const char* name,
                                                  int64_t least, int64_t most,
                                                  std::vector<int32_t>& into) {
        dom::array numbers;
        if (column.get(numbers) != simdjson::SUCCESS) return concat(name, " is not a list");
        return read_numbers(numbers, name, least, most, into);
    }
    static std::optional<std::string> read_numbers(const dom::array& numbers, const char* name,
                                                   int64_t least, int64_t most,
                                                   std::vector<int32_t>& into) {
        into.clear();
        for (const dom::element element : numbers) {
            int64_t value = 0;
            if (element.get(value) != simdjson::SUCCESS)
                return concat(name, " holds something that is not a whole number");
            if (value != -100 || least > -100)
                if (value < std::max<int64_t>(least, least == -100 ? 0 : least) || value > most)
                    return concat(name, " holds ", value, ", which is not in ",
                                  least == -100 ? "-100, 0" : std::to_string(least), " to ", most);
            into.push_back(static_cast<int32_t>(value));
        }
        return std::nullopt;
    }

    int64_t vocabulary_;
    dom::parser parser_;
};

// Keeps the first `length` tokens, of however many documents.
void truncate(Line& line, size_t length) {
    if (line.tokens.size() <= length) return;
    line.tokens.resize(length);
    line.labels.resize(length);
    size_t kept = 0;
    auto document = line.lengths.begin();
    for (; document != line.lengths.end() && kept < length; ++document) {
        *document = static_cast<int32_t>(std::min(static_cast<size_t>(*document), length - kept));
        kept += static_cast<size_t>(*document);
    }
    line.lengths.erase(document, line.lengths.end());
}

}  // namespace

Expected<TokenRows> read_pretokenized(const std::filesystem::path& file,
                                      std::optional<int64_t> max_length, int64_t vocabulary) {
    std::ifstream stream(file);
    if (!stream || is_directory(file))
        return Failure{ExitCode::missing_input,
                       concat("dataset_name = ", file.string(), ": there is no such file")};
    TokenRows rows;
    LineReader reader(vocabulary);
    Line line;
    int64_t number = 0;
    for (std::string text_of_line; std::getline(stream, text_of_line);) {
        ++number;
        if (trim(text_of_line).empty()) continue;
        if (const auto wrong = reader.read(text_of_line, line))
            return Failure{ExitCode::bad_data, concat(file.string(), ":", number, ": ", *wrong)};
        if (max_length) truncate(line, static_cast<size_t>(*max_length));
        if (std::ranges::any_of(line.labels, [](int32_t label) { return label != -100; }))
            rows.add(line.tokens, line.labels, line.lengths);
    }
    if (rows.size() == 0)
        return Failure{
            ExitCode::bad_data,
            concat(file.string(),
                   number == 0 ? ": is empty" : ": no row has a label left that could be learned")};
    return rows;
}

}  // namespace ringshard::data
