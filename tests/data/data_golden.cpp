#include "data_golden.hpp"

#include "unpacked.hpp"

namespace ringshard::test {

std::filesystem::path golden_file(const std::filesystem::path& file) {
    return std::filesystem::path(RINGSHARD_GOLDENS) / file;
}

text::Value read_json(const std::filesystem::path& file) {
    return text::read_json(unpacked(golden_file(file))).value();
}

std::vector<int64_t> integers(const text::Value& list) {
    std::vector<int64_t> numbers;
    for (const text::Value& item : *list.list()) numbers.push_back(*item.integer());
    return numbers;
}

}  // namespace ringshard::test
