#pragma once

#include <zlib.h>

#include <array>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace ringshard::test {

// The content of `file`, which is kept as file.gz.
inline std::string unpacked(const std::filesystem::path& file) {
    const gzFile packed = gzopen((file.string() + ".gz").c_str(), "rb");
    if (packed == nullptr) throw std::runtime_error(file.string() + ".gz: there is no such file");
    std::string content;
    std::array<char, 1U << 16U> piece{};
    for (int count = 0; (count = gzread(packed, piece.data(), piece.size())) > 0;)
        content.append(piece.data(), static_cast<std::size_t>(count));
    if (gzclose(packed) != Z_OK) throw std::runtime_error(file.string() + ".gz is damaged");
    return content;
}

}  // namespace ringshard::test
