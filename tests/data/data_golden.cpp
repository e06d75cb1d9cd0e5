#include "data_golden.hpp"

#include <fstream>

#include "ringshard/base/files.hpp"

namespace ringshard::test {

namespace {

std::filesystem::path golden(const std::filesystem::path& file) {
    return std::filesystem::path(RINGSHARD_GOLDENS) / file;
}

}  // namespace

text::Value read_json(const std::filesystem::path& file) {
    return text::JsonReader().read(read_file(golden(file)).value()).value();
}

std::vector<text::Value> read_json_lines(const std::filesystem::path& file) {
    text::JsonReader reader;
    std::vector<text::Value> lines;
    std::ifstream stream(golden(file));
    for (std::string line; std::getline(stream, line);) lines.push_back(reader.read(line).value());
    return lines;
}

std::vector<int64_t> integers(const text::Value& list) {
    std::vector<int64_t> numbers;
    for (const text::Value& item : *list.list()) numbers.push_back(*item.integer());
    return numbers;
}

}  // namespace ringshard::test
