#include "ringshard/data/left_aside.hpp"

#include <algorithm>
#include <array>

namespace ringshard::data {

using text::Value;

namespace {

constexpr size_t most_names = 1000;
constexpr size_t most_told = 20;

}  // namespace

void LeftAside::add(const Unused& unused, int64_t count) {
    if (const auto known = counts_.find(unused); known != counts_.end())
        known->second += count;
    else if (counts_.size() < most_names)
        counts_.emplace(unused, count);
    else
        more_ += count;
}

void LeftAside::add(const LeftAside& other) {
    for (const auto& [unused, count] : other.counts_) add(unused, count);
    more_ += other.more_;
}

Value LeftAside::to_value() const {
    Value::List list;
    for (const auto& [unused, count] : counts_)
        list.emplace_back(Value::List{Value(static_cast<int64_t>(unused.kind)), Value(unused.name),
                                      Value(count)});
    return Value(Value::Object{{"counts", Value(std::move(list))}, {"more", Value(more_)}});
}

LeftAside LeftAside::of(const Value& value) {
    LeftAside left;
    for (const Value& entry : *value.find("counts")->list()) {
        const Value::List& members = *entry.list();
        left.add({static_cast<Unused::Kind>(*members[0].integer()), *members[1].string()},
                 *members[2].integer());
    }
    left.more_ = *value.find("more")->integer();
    return left;
}

std::vector<std::string> LeftAside::to_lines() const {
    static constexpr std::array<const char*, 3> titles{
        "has columns that are not used",
        "has keys of messages that the chat template does not read",
        "gave its text alone (text_only = true), without"};
    static constexpr std::array<const char*, 3> units{"row", "message", "row"};
    std::vector<std::string> lines;
    for (size_t kind = 0; kind < titles.size(); ++kind) {
        std::vector<std::string> names;
        for (const auto& [unused, count] : counts_)
            if (static_cast<size_t>(unused.kind) == kind)
                names.push_back(format_text("{} ({} {}{}", unused.name, count, units[kind],
                                            count == 1 ? ")" : "s)"));
        if (names.empty()) continue;
        const size_t told = std::min(names.size(), most_told);
        std::string line = format_text("{}: ", titles[kind]);
        line += join({names.begin(), names.begin() + static_cast<std::ptrdiff_t>(told)}, ", ");
        if (told < names.size()) line += format_text(", and {} more", names.size() - told);
        lines.push_back(std::move(line));
    }
    if (more_ > 0)
        lines.push_back(format_text("has more names than {} that are not used: {} further times",
                                    most_names, more_));
    return lines;
}

}  // namespace ringshard::data
