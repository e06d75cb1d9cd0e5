#include <fcntl.h>

#include <algorithm>

#include "csv_records.hpp"
#include "file_lines.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/utf8.hpp"
#include "ringshard/data/left_aside.hpp"
#include "row_formats.hpp"

namespace ringshard::data {

namespace {

using text::Value;
namespace fs = std::filesystem;

constexpr std::string_view utf8_mark = "\xEF\xBB\xBF";
constexpr uint64_t longest_record = 256U << 20U;  // a longer one has an unclosed quote

Failure bad_table(const fs::path& file, const std::string& what) {
    return {ExitCode::bad_data, format_text("{}: {}", file.string(), what)};
}
Failure open_quote(const fs::path& file, uint64_t byte) {
    return bad_table(file, format_text("the record that begins at byte {} has a quote (\") that is "
                                       "not closed; write a quote within a value as two",
                                       byte));
}

class Bytes {
public:
    static Expected<Bytes> open(const fs::path& path) {
        auto file = File::open(path, O_RDONLY);
        if (!file) return file.failure();
        return Bytes(std::move(file).value(), fs::file_size(path));
    }
    uint64_t size() const { return size_; }
    // Appends up to `count` bytes from `begin` on.
    std::optional<Failure> append(uint64_t begin, uint64_t count, std::string& text) const {
        const size_t had = text.size();
        text.resize(had + std::min(count, size_ - std::min(begin, size_)));
        return file_.read_at(std::as_writable_bytes(std::span(text).subspan(had)),
                             static_cast<int64_t>(begin));
    }

private:
    Bytes(File file, uint64_t size) : file_(std::move(file)), size_(size) {}
    File file_;
    uint64_t size_;
};

// Column names, and the offset at which the rows begin.
struct Header {
    std::vector<std::string> columns;
    uint64_t end = 0;
};

std::optional<Failure> name_columns(const fs::path& path, std::vector<std::string>& columns) {
    for (size_t i = 0; i < columns.size(); ++i) {
        if (!is_utf8(columns[i])) return bad_table(path, "its first line is not UTF-8");
        if (columns[i].empty()) columns[i] = format_text("Unnamed: {}", i);  // as pandas does
        if (std::ranges::find(columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(i),
                              columns[i]) != columns.begin() + static_cast<std::ptrdiff_t>(i))
            return bad_table(
                path,
                format_text(
                    "its first line names the column {} twice; give each column a name of its own",
                    columns[i]));
    }
    return std::nullopt;
}

Expected<Header> read_header(const fs::path& path, const Bytes& bytes, char separator) {
    std::string text;
    if (auto failure = bytes.append(0, block_bytes, text)) return *failure;
    size_t begin = text.starts_with(utf8_mark) ? utf8_mark.size() : 0;
    CsvState state(separator);
    Header header;
    for (size_t i = begin; i <= text.size(); ++i) {
        const bool is_end = i == text.size();
        if (is_end && i < bytes.size())
            return bad_table(path, "its first line, which names the columns, is longer than 1 MiB");
        if (is_end && state.place() == CsvState::in_quotes) return open_quote(path, begin);
        if (!is_end && !state.step(text[i])) continue;
        const std::string_view record = std::string_view(text).substr(begin, i - begin);
        const bool is_crlf = i + 1 < text.size() && text[i] == '\r' && text[i + 1] == '\n';
        header.end = begin = std::min(text.size(), i + (is_crlf ? 2 : 1));
        if (is_blank_record(record, separator)) continue;
        header.columns = values_of(record, separator);
        break;
    }
    if (auto failure = name_columns(path, header.columns)) return *failure;
    return header;
}

// Block i holds the records that begin within its megabyte of the file.
class CsvFile : public RowFile {
public:
    CsvFile(fs::path name, Bytes bytes, Header header, char separator, std::string places,
            const std::vector<std::string>& wanted)
        : RowFile(std::move(name), RowUnit::row),
          bytes_(std::move(bytes)),
          header_(std::move(header)),
          separator_(separator),
          places_(std::move(places)) {
        for (const std::string& column : header_.columns)
            is_wanted_.push_back(std::ranges::find(wanted, column) != wanted.end() ||
                                 is_media_column(column));
    }

    int64_t num_blocks() const override {
        return static_cast<int64_t>((bytes_.size() + block_bytes - 1) / block_bytes);
    }

    Expected<int64_t> read(const Part& part, const Use& use) const override {
        return for_records(static_cast<uint64_t>(part.block),
                           [&](int64_t row, std::string_view record) { use(row, row_of(record)); });
    }
    Expected<Count> count(const Part& part) const override {
        const auto rows =
            for_records(static_cast<uint64_t>(part.block), [](int64_t, std::string_view) {});
        if (!rows) return rows.failure();
        return Count{rows.value(), rows.value()};
    }
    std::string cuts() const override { return places_; }

private:
    Expected<Value> row_of(std::string_view record) const {
        if (!is_utf8(record)) return Failure{ExitCode::bad_data, "holds text that is not UTF-8"};
        std::vector<std::string> values = values_of(record, separator_);
        if (values.size() > header_.columns.size())
            return Failure{
                ExitCode::bad_data,
                format_text(
                    "has {} values for {} columns; write a value with the separator in quotes",
                    values.size(), header_.columns.size())};
        values.resize(header_.columns.size());
        Value::Object columns;
        for (size_t i = 0; i < values.size(); ++i) {
            const bool is_held = is_wanted_[i] && !values[i].empty();
            columns.emplace_back(header_.columns[i],
                                 is_held ? Value(std::move(values[i])) : Value());
        }
        return Value(std::move(columns));
    }

    template <class UseRecord>
    Expected<int64_t> for_records(uint64_t block, const UseRecord& use) const {
        const uint64_t first = std::max(block * block_bytes, header_.end);
        const uint64_t own_bytes = std::min(bytes_.size(), (block + 1) * block_bytes) - first;
        std::string text;
        if (auto failure = bytes_.append(first, own_bytes, text)) return *failure;
        // The first block begins after the header.
        const auto place = places_.empty() || first == header_.end
                               ? CsvState::record_begin
                               : static_cast<CsvState::Place>(places_.at(block) - 'a');
        CsvState state(separator_, place);
        size_t begin = 0;  // of the current record
        bool is_ours = place == CsvState::record_begin || place == CsvState::after_cr;
        int64_t rows = 0;
        const auto use_record = [&](size_t end) {
            const std::string_view record = std::string_view(text).substr(begin, end - begin);
            if (is_ours && !is_blank_record(record, separator_)) use(rows++, record);
            is_ours = true;
        };
        for (size_t i = 0;; ++i) {
            if (i == text.size()) {
                const uint64_t at = first + i;
                if (!is_ours || begin >= own_bytes) return rows;
                if (at == bytes_.size()) break;
                if (i > longest_record) return open_quote(name_, first + begin);
                if (auto failure = bytes_.append(at, std::max<uint64_t>(1U << 16U, i), text))
                    return *failure;
            }
            const bool was_cr = state.place() == CsvState::after_cr;
            if (state.step(text[i])) {
                use_record(i);
                begin = i + 1;
            } else if (was_cr && text[i] == '\n') {
                begin = i + 1;
            } else {
                continue;
            }
            if (begin >= own_bytes) return rows;
        }
        if (state.place() == CsvState::in_quotes) return open_quote(name_, first + begin);
        use_record(text.size());
        return rows;
    }

    Bytes bytes_;
    Header header_;
    char separator_;
    std::string places_;  // state at the beginning of each block; empty for a single block
    std::vector<bool> is_wanted_;
};

}  // namespace

int64_t num_csv_blocks(const fs::path& path) {
    std::error_code missing;  // opening the file reports the error
    const uintmax_t bytes = fs::file_size(path, missing);
    return missing ? 0 : static_cast<int64_t>((bytes + block_bytes - 1) / block_bytes);
}

Expected<std::string> scan_csv(const fs::path& path, char separator, int64_t first, int64_t last) {
    const auto bytes = Bytes::open(path);
    if (!bytes) return bytes.failure();
    std::string letters;
    std::string text;
    for (int64_t block = first; block < last; ++block) {
        text.clear();
        if (auto failure =
                bytes.value().append(static_cast<uint64_t>(block) * block_bytes, block_bytes, text))
            return *failure;
        std::string_view rest = text;
        if (block == 0 && rest.starts_with(utf8_mark)) rest.remove_prefix(utf8_mark.size());
        CsvBlockScan scan(separator);
        scan.add(rest);
        letters += scan.letters();
    }
    return letters;
}

Expected<std::unique_ptr<RowFile>> open_csv(const fs::path& path,
                                            const std::vector<std::string>& wanted, char separator,
                                            const std::string& cuts) {
    auto bytes = Bytes::open(path);
    if (!bytes) return bytes.failure();
    auto header = read_header(path, bytes.value(), separator);
    if (!header) return header.failure();
    std::string places = cuts;
    if (places.empty() && bytes.value().size() > block_bytes) {
        const auto letters = scan_csv(path, separator, 0, num_csv_blocks(path));
        if (!letters) return letters.failure();
        places = join_csv_scans(letters.value());
    }
    return std::unique_ptr<RowFile>(std::make_unique<CsvFile>(path, std::move(bytes).value(),
                                                              std::move(header).value(), separator,
                                                              std::move(places), wanted));
}

}  // namespace ringshard::data
