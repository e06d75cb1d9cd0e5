#include "ringshard/text/value.hpp"

#include <algorithm>
#include <array>

namespace ringshard::text {

const Value* Value::find(std::string_view name) const {
    if (const Object* members = object())
        for (const auto& [key, value] : *members)
            if (key == name) return &value;
    return nullptr;
}

void Value::set(std::string_view name, Value value) {
    RINGSHARD_CHECK(object() != nullptr, "members are set on objects");
    for (auto& [key, old] : *object()) {
        if (key != name) continue;
        old = std::move(value);
        return;
    }
    object()->emplace_back(std::string(name), std::move(value));
}

const char* Value::kind() const {
    static constexpr std::array names{"null",     "true or false", "a number", "a number",
                                      "a number", "text",          "a list",   "an object"};
    return names[held_.index()];
}

Value to_list(const std::vector<int32_t>& numbers) {
    Value::List list;
    list.reserve(numbers.size());
    for (const int32_t number : numbers) list.emplace_back(int64_t{number});
    return Value(std::move(list));
}

Value to_list(const std::vector<std::string>& texts) {
    Value::List list;
    for (const std::string& text : texts) list.emplace_back(text);
    return Value(std::move(list));
}

}  // namespace ringshard::text
