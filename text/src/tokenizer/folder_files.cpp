#include "folder_files.hpp"

#include "ringshard/base/error.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/nesting.hpp"

namespace ringshard::text {

using json = nlohmann::ordered_json;
namespace fs = std::filesystem;

void refuse(const fs::path& file, const std::string& what) {
    throw Error(ExitCode::bad_data, concat(file.string(), ": ", what));
}

json read_object(const fs::path& file) {
    const auto content = read_file(file);
    if (!content) return json::object();
    json object = is_nested_deeply(*content) ? json() : json::parse(*content, nullptr, false);
    if (!object.is_object()) refuse(file, "is not a JSON object");
    return object;
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
