#include "data_golden.hpp"

#include <zstd.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "unpacked.hpp"

namespace ringshard::test {

std::filesystem::path golden_file(const std::filesystem::path& file) {
    return std::filesystem::path(RINGSHARD_GOLDENS) / file;
}

text::Value read_json(const std::filesystem::path& file) {
    return text::read_json(unpacked(golden_file(file))).value();
}

text::Value read_packed_json(const std::filesystem::path& file) {
    std::ifstream stream(golden_file(file), std::ios::binary);
    const std::string packed(std::istreambuf_iterator<char>(stream), {});
    std::string content(ZSTD_getFrameContentSize(packed.data(), packed.size()), '\0');
    const size_t size =
        ZSTD_decompress(content.data(), content.size(), packed.data(), packed.size());
    if (ZSTD_isError(size) != 0) throw std::runtime_error(file.string() + " is damaged");
    return text::read_json(content).value();
}

std::vector<int64_t> integers(const text::Value& list) {
    std::vector<int64_t> numbers;
    for (const text::Value& item : *list.list()) numbers.push_back(*item.integer());
    return numbers;
}

}  // namespace ringshard::test
