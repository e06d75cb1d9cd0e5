#include "data_golden.hpp"

#include <fstream>

#include "ringshard/base/files.hpp"

namespace ringshard::test {

std::filesystem::path golden_file(const std::filesystem::path& file) {
    return std::filesystem::path(RINGSHARD_GOLDENS) / file;
}

text::Value read_json(const std::filesystem::path& file) {
    return text::read_json(read_file(golden_file(file)).value()).value();
}

std::vector<text::Value> read_json_lines(const std::filesystem::path& file) {
    std::vector<text::Value> lines;
    std::ifstream stream(golden_file(file));
    for (std::string line; std::getline(stream, line);)
        lines.push_back(text::read_json(line).value());
    return lines;
}

std::vector<int64_t> integers(const text::Value& list) {
    std::vector<int64_t> numbers;
    for (const text::Value& item : *list.list()) numbers.push_back(*item.integer());
    return numbers;
}

}  // namespace ringshard::test
