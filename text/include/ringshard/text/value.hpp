#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::text {

// A JSON value: a row of a dataset, or the variables of a chat template. Objects keep the order of
// their members, since templates print it.
class Value {
public:
    using List = std::vector<Value>;
    using Object = std::vector<std::pair<std::string, Value>>;

    Value() = default;  // null
    explicit Value(bool truth) : held_(truth) {}
    explicit Value(int64_t number) : held_(number) {}
    explicit Value(uint64_t number) : held_(number) {}
    explicit Value(double number) : held_(number) {}
    explicit Value(std::string text) : held_(std::move(text)) {}
    explicit Value(List items) : held_(std::move(items)) {}
    explicit Value(Object members) : held_(std::move(members)) {}

    bool is_null() const { return std::holds_alternative<std::monostate>(held_); }

    // Returns the value if it has that type, else nullptr.
    const bool* truth() const { return std::get_if<bool>(&held_); }
    const int64_t* integer() const { return std::get_if<int64_t>(&held_); }
    // A whole number too large for integer(), kept to print it unchanged.
    const uint64_t* large() const { return std::get_if<uint64_t>(&held_); }
    const double* real() const { return std::get_if<double>(&held_); }
    const std::string* string() const { return std::get_if<std::string>(&held_); }
    const List* list() const { return std::get_if<List>(&held_); }
    const Object* object() const { return std::get_if<Object>(&held_); }
    List* list() { return std::get_if<List>(&held_); }
    Object* object() { return std::get_if<Object>(&held_); }

    // Returns a member of an object; nullptr if this is not an object or has no such member.
    const Value* find(std::string_view name) const;
    // Sets a member of an object; replaces an older one of that name.
    void set(std::string_view name, Value value);

    // Returns "null", "true or false", "a number", "text", "a list" or "an object", for messages.
    const char* kind() const;

    bool operator==(const Value&) const = default;

private:
    std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, List, Object> held_;
};

// Parses one JSON document. A failure names the byte; the caller adds the file.
Expected<Value> read_json(std::string_view json);

Value to_list(const std::vector<std::string>& texts);
Value to_list(const std::vector<int32_t>& numbers);

// Formats on one line, with ", " and ": ", without escapes for characters beyond ASCII.
std::string to_json(const Value& value);

}  // namespace ringshard::text
