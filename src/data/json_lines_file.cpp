#include "file_lines.hpp"
#include "json_row.hpp"
#include "row_formats.hpp"

namespace ringshard::data {

namespace {

class JsonLinesFile : public RowFile {
public:
    JsonLinesFile(std::filesystem::path name, FileLines lines, JsonRow row)
        : RowFile(std::move(name), RowUnit::line), lines_(std::move(lines)), row_(std::move(row)) {}

    int64_t num_blocks() const override { return lines_.num_blocks(); }

    Expected<int64_t> read(const Part& part, const Use& use) const override {
        return for_lines(part.block, [&](int64_t line, std::string_view json) {
            if (!trim(json).empty()) use(line, row_.read(json));
        });
    }

    Expected<Count> count(const Part& part) const override {
        Count count;
        const auto lines = for_lines(part.block, [&](int64_t, std::string_view json) {
            if (!trim(json).empty()) ++count.rows;
        });
        if (!lines) return lines.failure();
        count.places = lines.value();
        return count;
    }

private:
    template <class UseLine>
    Expected<int64_t> for_lines(int64_t block, const UseLine& use) const {
        std::string text;
        if (auto failure = lines_.read(block, text)) return *failure;
        return for_each_line(text, use);
    }

    FileLines lines_;
    JsonRow row_;
};

}  // namespace

Expected<std::unique_ptr<RowFile>> open_json_lines(const std::filesystem::path& path,
                                                   std::vector<std::string> wanted) {
    auto lines = FileLines::open(path);
    if (!lines) return lines.failure();
    return std::unique_ptr<RowFile>(std::make_unique<JsonLinesFile>(path, std::move(lines).value(),
                                                                    JsonRow(std::move(wanted))));
}

}  // namespace ringshard::data
