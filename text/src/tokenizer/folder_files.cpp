#include "folder_files.hpp"

#include "ringshard/base/error.hpp"
#include "ringshard/base/files.hpp"

namespace ringshard::text {

namespace fs = std::filesystem;

void refuse(const fs::path& file, const std::string& what) {
    throw Error(ExitCode::bad_data, format_text("{}: {}", file.string(), what));
}

Value read_object(const fs::path& file) {
    const auto content = read_file(file);
    if (!content) return Value(Value::Object());
    auto read = read_json(*content);
    if (!read || read.value().object() == nullptr) refuse(file, "is not a JSON object");
    return std::move(read).value();
}

const std::string* text_in(const Value& object, std::string_view key) {
    const Value* const value = object.find(key);
    return value == nullptr ? nullptr : value->string();
}

std::string read_text(const fs::path& file) {
    std::string text;
    const auto content = read_file(file);
    if (!content) refuse(file, "cannot be read");
    for (size_t i = 0; i < content->size(); ++i) {
        const char c = (*content)[i];
        if (c == '\r' && i + 1 < content->size() && (*content)[i + 1] == '\n') continue;
        text += c == '\r' ? '\n' : c;
    }
    return text;
}

}  // namespace ringshard::text
