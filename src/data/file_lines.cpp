#include "file_lines.hpp"

#include <fcntl.h>

#include <algorithm>
#include <span>

namespace ringshard::data {

namespace {}  // namespace

Expected<FileLines> FileLines::open(const std::filesystem::path& path) {
    auto file = File::open(path, O_RDONLY);
    if (!file) return file.failure();
    return FileLines(std::move(file).value(), std::filesystem::file_size(path));
}

int64_t FileLines::num_blocks() const {
    return static_cast<int64_t>((bytes_ + block_bytes - 1) / block_bytes);
}

std::optional<Failure> FileLines::read(int64_t block, std::string& text) const {
    const uint64_t begin = static_cast<uint64_t>(block) * block_bytes;
    const uint64_t end = std::min(bytes_, begin + block_bytes);
    text.resize(end - begin);
    if (auto failure = read_at(begin, text.data(), text.size())) return failure;
    // The last line of a block may extend beyond its end: read the rest.
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
    // Drop the rest of an earlier block's line. If that line extends beyond this block, no line
    // begins here.
    text.erase(0, line_end == std::string::npos || line_end + 1 > end - begin ? std::string::npos
                                                                              : line_end + 1);
    return std::nullopt;
}

std::optional<Failure> FileLines::read_at(uint64_t at, char* into, size_t count) const {
    return file_.read_at(std::as_writable_bytes(std::span(into, count)), static_cast<int64_t>(at));
}

}  // namespace ringshard::data
