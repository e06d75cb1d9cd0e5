#include <algorithm>

#include "compare.hpp"
#include "printing.hpp"
#include "run.hpp"

// Methods of Python's dict, list, tuple, range and numbers. Like jinja2's immutable sandbox, it
// knows mutating methods and refuses them.
namespace ringshard::text::jinja {

namespace {

Datum dict_get(Run&, const Datum& self, Arguments& arguments) {
    if (!arguments.named.empty()) fail("get takes its arguments without names");
    const Bound bound(arguments, "get", {"key", "default"}, 1);
    check_key(bound[0]);
    const Datum* value = self.as<Dict>().find(bound[0]);
    return value != nullptr ? *value : bound.value_or(1, Datum::none());
}

template <View::Of part>
Datum dict_view(Run& run, const Datum& self, Arguments& arguments) {
    const Bound bound(arguments, "the method", {});
    return {Kind::view, run.heap.make<View>(part, Ref<Dict>(&self.as<Dict>())).get()};
}

Datum dict_copy(Run& run, const Datum& self, Arguments& arguments) {
    const Bound bound(arguments, "copy", {});
    const auto copy = run.heap.make<Dict>();
    copy->members = self.as<Dict>().members;
    return datum(copy);
}

Datum fromkeys(Run& run, const Datum&, Arguments& arguments) {
    const Bound bound(arguments, "fromkeys", {"iterable", "value"}, 1);
    const auto made = run.heap.make<Dict>();
    for (const Datum& key : all_of(run, bound[0])) {
        check_key(key);
        run.step(1 + made->members.size() / 16);
        made->set(key, bound.value_or(1, Datum::none()));
    }
    return datum(made);
}

Datum count_items(Run& run, const Datum& self, Arguments& arguments) {
    const Bound bound(arguments, "count", {"value"}, 1);
    int64_t count = 0;
    for (const Datum& item : all_of(run, self)) count += equal(item, bound[0]) ? 1 : 0;
    return Datum(count);
}

Datum index_of(Run& run, const Datum& self, Arguments& arguments) {
    const Bound bound(arguments, "index", {"value", "start", "stop"}, 1);
    const std::vector<Datum> items = all_of(run, self);
    const auto size = static_cast<int64_t>(items.size());
    const auto place = [&](size_t index, int64_t otherwise) {
        const int64_t at = bound.integer_or(index, otherwise);
        return at < 0 ? std::max<int64_t>(at + size, 0) : at;
    };
    for (int64_t i = place(1, 0); i < std::min(place(2, size), size); ++i)
        if (equal(items[static_cast<size_t>(i)], bound[0])) return Datum(i);
    fail("the value is not in the list");
}

Datum list_copy(Run&, const Datum& self, Arguments& arguments) {
    const Bound bound(arguments, "copy", {});
    return self;
}

Datum is_integer(Run&, const Datum& self, Arguments&) {
    return Datum(self.is_whole() ||
                 self.real() == static_cast<double>(static_cast<int64_t>(self.real())));
}

Datum bit_length(Run&, const Datum& self, Arguments&) {
    int64_t bits = 0;
    const int64_t number = self.integer();
    for (auto rest = number < 0 ? ~static_cast<uint64_t>(number) + 1
                                : static_cast<uint64_t>(number);
         rest > 0; rest >>= 1)
        ++bits;
    return Datum(bits);
}

constexpr std::array<MethodEntry, 11> dict_methods{{
    {"get", dict_get},
    {"items", dict_view<View::Of::items>},
    {"keys", dict_view<View::Of::keys>},
    {"values", dict_view<View::Of::values>},
    {"copy", dict_copy},
    {"fromkeys", fromkeys},
    {"clear", nullptr},
    {"pop", nullptr},
    {"popitem", nullptr},
    {"setdefault", nullptr},
    {"update", nullptr},
}};

constexpr std::array<MethodEntry, 11> list_methods{{
    {"count", count_items},
    {"index", index_of},
    {"copy", list_copy},
    {"append", nullptr},
    {"clear", nullptr},
    {"pop", nullptr},
    {"reverse", nullptr},
    {"insert", nullptr},
    {"sort", nullptr},
    {"extend", nullptr},
    {"remove", nullptr},
}};

constexpr std::array<MethodEntry, 2> tuple_methods{{{"count", count_items}, {"index", index_of}}};
constexpr std::array<MethodEntry, 1> whole_methods{{{"bit_length", bit_length}}};
constexpr std::array<MethodEntry, 1> real_methods{{{"is_integer", is_integer}}};

const MethodEntry* among(const auto& methods, std::string_view name) {
    const auto found = std::ranges::find(methods, name, &MethodEntry::name);
    return found == methods.end() ? nullptr : &*found;
}

}  // namespace

const MethodEntry* find_method(Kind kind, std::string_view name) {
    switch (kind) {
        case Kind::text: return find_text_method(name);
        case Kind::dict: return among(dict_methods, name);
        case Kind::list: return among(list_methods, name);
        case Kind::tuple:
        case Kind::range: return among(tuple_methods, name);
        case Kind::boolean:
        case Kind::integer: return among(whole_methods, name);
        case Kind::real: return among(real_methods, name);
        default: return nullptr;
    }
}

Datum Method::call(Run& run, Arguments& arguments) {
    return call_method(run, entry, self, arguments);
}

std::string Method::print() const {
    return format_text("<built-in method {} of {} object>", entry.name, type_name(self));
}

}  // namespace ringshard::text::jinja
