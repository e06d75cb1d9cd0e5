#include <algorithm>
#include <unordered_map>

#include "compare.hpp"
#include "printing.hpp"
#include "run.hpp"
#include "text_searching.hpp"

// Tests, which follow "is".
namespace ringshard::text::jinja {

namespace {

using Holds = bool (*)(const Datum&);

template <Holds holds>
bool simple(Run&, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "the test", {});
    return holds(input);
}

Datum one_argument(Arguments& arguments, std::string_view name) {
    return Bound(arguments, name, {"other"}, 1)[0];
}

bool is_divisible(Run& run, const Datum& input, Arguments& arguments) {
    const Datum by = one_argument(arguments, "divisibleby");
    return equal(arithmetic(run, Sign::modulo, input, by), Datum(int64_t{0}));
}

template <int64_t rest>
bool has_rest(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "the test", {});
    return equal(arithmetic(run, Sign::modulo, input, Datum(int64_t{2})), Datum(rest));
}

bool is_same_as(Run&, const Datum& input, Arguments& arguments) {
    return is_same(input, one_argument(arguments, "sameas"));
}
bool is_in(Run& run, const Datum& input, Arguments& arguments) {
    return contains(run, one_argument(arguments, "in"), input);
}
bool is_equal(Run&, const Datum& input, Arguments& arguments) {
    return equal(input, one_argument(arguments, "=="));
}
bool is_unequal(Run&, const Datum& input, Arguments& arguments) {
    return !equal(input, one_argument(arguments, "!="));
}
bool is_less(Run&, const Datum& input, Arguments& arguments) {
    return less(input, one_argument(arguments, "<"));
}
bool is_more(Run&, const Datum& input, Arguments& arguments) {
    return less(one_argument(arguments, ">"), input);
}
bool is_at_most(Run&, const Datum& input, Arguments& arguments) {
    const Datum other = one_argument(arguments, "<=");
    return less(input, other) || equal(input, other);
}
bool is_at_least(Run&, const Datum& input, Arguments& arguments) {
    const Datum other = one_argument(arguments, ">=");
    return less(other, input) || equal(input, other);
}

bool is_filter(Run&, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "filter", {});
    check_key(input);
    return input.is(Kind::text) && find_filter(input.text()) != nullptr;
}
bool is_test(Run&, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "test", {});
    check_key(input);
    return input.is(Kind::text) && find_test(input.text()) != nullptr;
}

bool is_sequence(const Datum& value) {
    switch (value.kind()) {
        case Kind::undefined:  // like jinja2's Undefined in Python
        case Kind::text:
        case Kind::list:
        case Kind::tuple:
        case Kind::dict:
        case Kind::range: return true;
        default: return false;
    }
}

bool is_iterable(const Datum& value) {
    return is_sequence(value) || value.is(Kind::view) || value.is(Kind::iterator) ||
           value.is(Kind::loop);
}

bool is_callable(const Datum& value) {
    return value.is(Kind::callable) || value.is(Kind::loop) || value.is(Kind::undefined);
}

bool is_kind_of_whole(const Datum& value) {
    return value.is(Kind::integer) || value.is(Kind::large);
}

template <Kind kind>
bool is_of(const Datum& value) {
    return value.is(kind);
}

bool is_defined(const Datum& value) { return !value.is(Kind::undefined); }
bool is_number(const Datum& value) { return value.is_number() || value.is(Kind::large); }
bool is_true(const Datum& value) { return value.is(Kind::boolean) && value.truth(); }
bool is_false(const Datum& value) { return value.is(Kind::boolean) && !value.truth(); }
bool is_escaped(const Datum& value) { return value.is(Kind::text) && value.is_markup(); }
bool is_lower_text(const Datum& value) { return is_lower(to_text(value)); }
bool is_upper_text(const Datum& value) { return is_upper(to_text(value)); }

constexpr std::array<TestEntry, 39> tests{{
    {"odd", has_rest<1>},
    {"even", has_rest<0>},
    {"divisibleby", is_divisible},
    {"defined", simple<is_defined>},
    {"undefined", simple<is_of<Kind::undefined>>},
    {"filter", is_filter},
    {"test", is_test},
    {"none", simple<is_of<Kind::none>>},
    {"boolean", simple<is_of<Kind::boolean>>},
    {"true", simple<is_true>},
    {"false", simple<is_false>},
    {"integer", simple<is_kind_of_whole>},
    {"float", simple<is_of<Kind::real>>},
    {"lower", simple<is_lower_text>},
    {"upper", simple<is_upper_text>},
    {"string", simple<is_of<Kind::text>>},
    {"mapping", simple<is_of<Kind::dict>>},
    {"number", simple<is_number>},
    {"sequence", simple<is_sequence>},
    {"iterable", simple<is_iterable>},
    {"callable", simple<is_callable>},
    {"sameas", is_same_as},
    {"escaped", simple<is_escaped>},
    {"in", is_in},
    {"==", is_equal},
    {"eq", is_equal},
    {"equalto", is_equal},
    {"!=", is_unequal},
    {"ne", is_unequal},
    {">", is_more},
    {"gt", is_more},
    {"greaterthan", is_more},
    {">=", is_at_least},
    {"ge", is_at_least},
    {"<", is_less},
    {"lt", is_less},
    {"lessthan", is_less},
    {"<=", is_at_most},
    {"le", is_at_most},
}};

}  // namespace

const TestEntry* find_test(std::string_view name) {
    static const auto known = [] {
        std::unordered_map<std::string_view, const TestEntry*> index;
        for (const TestEntry& test : tests) index.emplace(test.name, &test);
        return index;
    }();
    const auto found = known.find(name);
    return found == known.end() ? nullptr : found->second;
}

}  // namespace ringshard::text::jinja
