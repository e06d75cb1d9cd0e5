#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "ringshard/base/files.hpp"

namespace ringshard::data {

// Files of text are read in blocks of this size.
constexpr uint64_t block_bytes = 1U << 20U;

// The text of a file in blocks of whole lines, which any number of ranks and threads can share:
// block i holds the lines that begin within its `block_bytes` of the file.
class FileLines {
public:
    static Expected<FileLines> open(const std::filesystem::path& path);

    int64_t num_blocks() const;
    // Reads the lines of a block, each with its line break; without a UTF-8 BOM.
    std::optional<Failure> read(int64_t block, std::string& text) const;

private:
    FileLines(File file, uint64_t bytes) : file_(std::move(file)), bytes_(bytes) {}
    std::optional<Failure> read_at(uint64_t at, char* into, size_t count) const;

    File file_;
    uint64_t bytes_;
};

// Calls `use` with the number of each line and the line without its break. Returns how many there
// are.
template <class Use>
int64_t for_each_line(std::string_view text, const Use& use) {
    int64_t line = 0;
    for (; !text.empty(); ++line) {
        const std::string_view one = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), one.size() + 1));
        use(line, one);
    }
    return line;
}

}  // namespace ringshard::data
