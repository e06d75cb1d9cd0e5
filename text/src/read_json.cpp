#include <algorithm>

#include "ringshard/base/json_parser.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::text {

namespace {

// Of members with the same name keeps the last value, at the first one's position.
void drop_repeated(Value::Object& members) {
    const auto is_repeated = [&](const auto& member) {
        return std::ranges::count(members, member.first, [](const auto& m) { return m.first; }) > 1;
    };
    if (members.size() <= 8 && std::ranges::none_of(members, is_repeated)) return;
    std::vector<std::string_view> names;
    for (const auto& member : members) names.emplace_back(member.first);
    std::ranges::sort(names);
    if (std::ranges::adjacent_find(names) == names.end()) return;
    Value unique{Value::Object()};
    for (auto& [name, value] : members) unique.set(name, std::move(value));
    members = std::move(*unique.object());
}

class Builder : public JsonReceiver {
public:
    Value& result() { return result_; }

    bool null() override { return place() = Value(), true; }
    bool boolean(bool value) override { return place() = Value(value), true; }
    bool integer(int64_t value) override { return place() = Value(value), true; }
    bool large(uint64_t value) override { return place() = Value(value), true; }
    bool real(double value) override { return place() = Value(value), true; }
    bool string(std::string value) override { return place() = Value(std::move(value)), true; }
    bool name(std::string name) override {
        open_.back()->object()->emplace_back().first = std::move(name);
        return true;
    }
    bool begin_object() override { return open(Value(Value::Object())); }
    bool end_object() override {
        drop_repeated(*open_.back()->object());
        return close();
    }
    bool begin_list() override { return open(Value(Value::List())); }
    bool end_list() override { return close(); }

private:
    // Returns the place of the next value: the whole document, the end of a list, or a member.
    Value& place() {
        if (open_.empty()) return result_;
        Value::List* const list = open_.back()->list();
        return list != nullptr ? list->emplace_back() : open_.back()->object()->back().second;
    }
    bool open(Value value) {
        open_.push_back(&place());
        *open_.back() = std::move(value);
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }

    Value result_;
    std::vector<Value*> open_;  // objects and lists whose end is not read yet, outermost first
};

}  // namespace

Expected<Value> read_json(std::string_view json) {
    Builder builder;
    if (auto failure = ringshard::read_json(json, builder)) return std::move(*failure);
    return std::move(builder.result());
}

}  // namespace ringshard::text
