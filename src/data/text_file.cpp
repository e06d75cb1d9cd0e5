#include <fcntl.h>

#include "file_lines.hpp"
#include "ringshard/base/utf8.hpp"
#include "row_formats.hpp"

namespace ringshard::data {

namespace {

using text::Value;

Expected<Value> row_of_text(std::string_view words) {
    if (!is_utf8(words)) return Failure{ExitCode::bad_data, "holds text that is not UTF-8"};
    return Value(Value::Object{{"text", Value(std::string(words))}});
}

// Converts "\r\n" and "\r" to "\n", like Python's text mode.
std::string with_plain_breaks(std::string_view words) {
    std::string plain;
    plain.reserve(words.size());
    for (size_t i = 0; i < words.size(); ++i) {
        if (words[i] == '\r' && i + 1 < words.size() && words[i + 1] == '\n') continue;
        plain += words[i] == '\r' ? '\n' : words[i];
    }
    return plain;
}

class TextLinesFile : public RowFile {
public:
    TextLinesFile(std::filesystem::path name, FileLines lines)
        : RowFile(std::move(name), RowUnit::line), lines_(std::move(lines)) {}

    int64_t num_blocks() const override { return lines_.num_blocks(); }

    Expected<int64_t> read(const Part& part, const Use& use) const override {
        return for_lines(part.block, [&](int64_t line, std::string_view words) {
            use(line, row_of_text(words));
        });
    }
    Expected<Count> count(const Part& part) const override {
        const auto lines = for_lines(part.block, [](int64_t, std::string_view) {});
        if (!lines) return lines.failure();
        return Count{lines.value(), lines.value()};
    }

private:
    template <class UseLine>
    Expected<int64_t> for_lines(int64_t block, const UseLine& use) const {
        std::string text;
        if (auto failure = lines_.read(block, text)) return *failure;
        if (text.find('\r') != std::string::npos) text = with_plain_breaks(text);
        return for_each_line(text, use);
    }

    FileLines lines_;
};

// A file that is one row.
class DocumentFile : public RowFile {
public:
    DocumentFile(std::filesystem::path name, File file)
        : RowFile(std::move(name), RowUnit::file), file_(std::move(file)) {}

    int64_t num_blocks() const override { return 1; }

    Expected<int64_t> read(const Part&, const Use& use) const override {
        std::string text(std::filesystem::file_size(name_), '\0');
        if (auto failure = file_.read_at(std::as_writable_bytes(std::span(text)), 0))
            return *failure;
        std::string_view words = text;
        if (words.starts_with("\xEF\xBB\xBF")) words.remove_prefix(3);
        use(0, row_of_text(with_plain_breaks(words)));
        return 1;
    }
    Expected<Count> count(const Part&) const override { return Count{1, 1}; }

private:
    File file_;
};

}  // namespace

Expected<std::unique_ptr<RowFile>> open_text_lines(const std::filesystem::path& path) {
    auto lines = FileLines::open(path);
    if (!lines) return lines.failure();
    return std::unique_ptr<RowFile>(
        std::make_unique<TextLinesFile>(path, std::move(lines).value()));
}

Expected<std::unique_ptr<RowFile>> open_text_document(const std::filesystem::path& path) {
    auto file = File::open(path, O_RDONLY);
    if (!file) return file.failure();
    return std::unique_ptr<RowFile>(std::make_unique<DocumentFile>(path, std::move(file).value()));
}

}  // namespace ringshard::data
