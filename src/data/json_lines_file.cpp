#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "json_row.hpp"
#include "row_formats.hpp"

namespace ringshard::data {

namespace {

constexpr uint64_t block_bytes = 1U << 20U;

// Block i is the lines that begin within its megabyte of the file.
class JsonLinesFile : public RowFile {
public:
    JsonLinesFile(std::filesystem::path name, File file, uint64_t bytes, JsonRow row)
        : name_(std::move(name)), file_(std::move(file)), bytes_(bytes), row_(std::move(row)) {}

    int64_t num_blocks() const override {
        return static_cast<int64_t>((bytes_ + block_bytes - 1) / block_bytes);
    }

    Expected<int64_t> read(const Part& part, const Use& use) const override {
        std::string text;
        if (auto failure = read_lines(static_cast<uint64_t>(part.block), text)) return *failure;
        std::string_view rest = text;
        int64_t line = 0;
        for (; !rest.empty(); ++line) {
            const std::string_view one = rest.substr(0, rest.find('\n'));
            rest.remove_prefix(std::min(rest.size(), one.size() + 1));
            if (!trim(one).empty()) use(line, row_.read(one));
        }
        return line;
    }

    Expected<int64_t> count(const Part& part) const override {
        std::string text;
        if (auto failure = read_lines(static_cast<uint64_t>(part.block), text)) return *failure;
        const bool is_open = !text.empty() && text.back() != '\n';
        return std::ranges::count(text, '\n') + (is_open ? 1 : 0);
    }

    std::string place(int64_t line) const override { return concat(name_.string(), ":", line + 1); }

private:
    // The text of the lines that begin in a block.
    std::optional<Failure> read_lines(uint64_t block, std::string& text) const {
        const uint64_t begin = block * block_bytes;
        const uint64_t end = std::min(bytes_, begin + block_bytes);
        text.resize(end - begin);
        if (auto failure = read_at(begin, text.data(), text.size())) return failure;
        // Who reads the end of the block also reads the line that goes on beyond it.
        for (uint64_t at = end; at < bytes_ && text.back() != '\n';) {
            std::string more(std::min<uint64_t>(bytes_ - at, 1U << 16U), '\0');
            if (auto failure = read_at(at, more.data(), more.size())) return failure;
            at += more.size();
            const size_t line_end = more.find('\n');
            text.append(more, 0, line_end == std::string::npos ? line_end : line_end + 1);
        }
        if (block == 0) {
            if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
            return std::nullopt;
        }
        char before = 0;
        if (auto failure = read_at(begin - 1, &before, 1)) return failure;
        if (before == '\n') return std::nullopt;
        const size_t line_end = text.find('\n');
        // The line of an earlier block: none begins here if it reaches beyond this one.
        text.erase(0, line_end == std::string::npos || line_end + 1 > end - begin
                          ? std::string::npos
                          : line_end + 1);
        return std::nullopt;
    }
    std::optional<Failure> read_at(uint64_t at, char* into, size_t count) const {
        return file_.read_at(std::as_writable_bytes(std::span(into, count)),
                             static_cast<int64_t>(at));
    }

    std::filesystem::path name_;
    File file_;
    uint64_t bytes_;
    JsonRow row_;
};

}  // namespace

Expected<std::unique_ptr<RowFile>> open_json_lines(const std::filesystem::path& path,
                                                   std::vector<std::string> wanted) {
    auto file = File::open(path, O_RDONLY);
    if (!file) return file.failure();
    const uint64_t bytes = std::filesystem::file_size(path);
    return std::unique_ptr<RowFile>(std::make_unique<JsonLinesFile>(
        path, std::move(file).value(), bytes, JsonRow(std::move(wanted))));
}

}  // namespace ringshard::data
