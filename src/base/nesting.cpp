#include "ringshard/base/nesting.hpp"

#include <cstddef>

namespace ringshard {

bool is_nested_deeply(std::string_view json) {
    constexpr int deepest = 200;
    int depth = 0;
    bool is_text = false;
    for (size_t i = 0; i < json.size(); ++i) {
        const char c = json[i];
        if (is_text && c == '\\') ++i;
        if (c == '"') is_text = !is_text;
        if (is_text) continue;
        if (c == '{' || c == '[') ++depth;
        if (c == '}' || c == ']') --depth;
        if (depth > deepest) return true;
    }
    return false;
}

}  // namespace ringshard
