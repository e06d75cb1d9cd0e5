#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "ringshard/base/text.hpp"

namespace ringshard::test {

// A folder for the files of one fuzzing process; scripts/fuzz says TMPDIR, in memory.
class FuzzFolder {
public:
    FuzzFolder() { std::filesystem::create_directories(path_); }
    ~FuzzFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    FuzzFolder(const FuzzFolder&) = delete;
    FuzzFolder& operator=(const FuzzFolder&) = delete;

    std::filesystem::path write(const std::filesystem::path& name, std::string_view bytes) const {
        const auto file = path_ / name;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file, std::ios::binary | std::ios::trunc)
            .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        return file;
    }
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_ =
        std::filesystem::temp_directory_path() / format_text("fuzz-{}", getpid());
};

inline std::string_view text_of(const uint8_t* data, size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

// Of an input that holds several texts, zero bytes between them: takes the first one away.
inline std::string_view take_text(std::string_view& input) {
    const size_t border = input.find('\0');
    const std::string_view first = input.substr(0, border);
    input.remove_prefix(border == std::string_view::npos ? input.size() : border + 1);
    return first;
}

}  // namespace ringshard::test
