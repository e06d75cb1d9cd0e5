#include "ringshard/base/parse_json.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "ringshard/base/json_parser.hpp"

namespace ringshard {

namespace {

template <class Json>
class JsonBuilder : public JsonReceiver {
public:
    Json& result() { return result_; }

    bool null() override { return add(nullptr); }
    bool boolean(bool value) override { return add(value); }
    bool integer(int64_t value) override {
        return value < 0 ? add(value) : add(static_cast<uint64_t>(value));
    }
    bool large(uint64_t value) override { return add(value); }
    bool real(double value) override { return add(value); }
    bool string(std::string value) override { return add(std::move(value)); }
    bool name(std::string name) override {
        member_ = &(*open_.back())[std::move(name)];
        return true;
    }
    bool begin_object() override { return open(Json::object()); }
    bool end_object() override { return close(); }
    bool begin_list() override { return open(Json::array()); }
    bool end_list() override { return close(); }

private:
    // Returns the place of the next value: the whole document, the end of a list, or a member.
    Json& place() {
        if (open_.empty()) return result_;
        return open_.back()->is_array() ? open_.back()->emplace_back() : *member_;
    }
    bool add(Json value) {
        place() = std::move(value);
        return true;
    }
    bool open(Json value) {
        open_.push_back(&place());
        *open_.back() = std::move(value);
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }

    Json result_;
    std::vector<Json*> open_;  // objects and lists whose end is not read yet, outermost first
    Json* member_ = nullptr;   // whose value follows
};

// Ends the reading at a name that its object has already.
class RepeatedName : public JsonReceiver {
public:
    const std::string& result() const { return result_; }

    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool integer(int64_t) override { return true; }
    bool large(uint64_t) override { return true; }
    bool real(double) override { return true; }
    bool string(std::string) override { return true; }
    bool name(std::string name) override {
        if (names_.back().insert(name).second) return true;
        result_ = std::move(name);
        return false;
    }
    bool begin_object() override {
        names_.emplace_back();
        return true;
    }
    bool end_object() override {
        names_.pop_back();
        return true;
    }
    bool begin_list() override { return true; }
    bool end_list() override { return true; }

private:
    std::vector<std::set<std::string>> names_;  // of the objects that are open
    std::string result_;
};

}  // namespace

std::string repeated_name(std::string_view text) {
    RepeatedName names;
    read_json(text, names);
    return names.result();
}

template <class Json>
Expected<Json> parse_json(std::string_view text) {
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
    JsonBuilder<Json> builder;
    if (auto failure = read_json(text, builder)) return std::move(*failure);
    return std::move(builder.result());
}

template <class Json>
Json json_or_null(std::string_view text) {
    auto parsed = parse_json<Json>(text);
    return parsed ? std::move(parsed).value() : Json();
}

template Expected<nlohmann::json> parse_json(std::string_view);
template Expected<nlohmann::ordered_json> parse_json(std::string_view);
template nlohmann::json json_or_null(std::string_view);
template nlohmann::ordered_json json_or_null(std::string_view);

}  // namespace ringshard
