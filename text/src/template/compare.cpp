#include "compare.hpp"

#include <cmath>
#include <limits>

#include "calls.hpp"
#include "printing.hpp"
#include "run.hpp"
#include "unicode/python_characters.hpp"

namespace ringshard::text::jinja {

bool truth_of(const Datum& value) {
    switch (value.kind()) {
        case Kind::missing:
        case Kind::undefined:
        case Kind::none: return false;
        case Kind::boolean: return value.truth();
        case Kind::integer: return value.integer() != 0;
        case Kind::real: return value.real() != 0;
        case Kind::text: return !value.text().empty();
        case Kind::list:
        case Kind::tuple: return !value.items().empty();
        case Kind::dict: return !value.as<Dict>().members.empty();
        case Kind::range: return value.as<Range>().size > 0;
        case Kind::view: return !value.as<View>().dict->members.empty();
        default: return true;
    }
}

namespace {

void check_depth(int depth) {
    if (depth > max_data_depth) fail("data is nested more than {} deep", max_data_depth);
}

bool equal_items(const std::vector<Datum>& left, const std::vector<Datum>& right, int depth) {
    if (left.size() != right.size()) return false;
    for (size_t i = 0; i < left.size(); ++i)
        if (!equal(left[i], right[i], depth + 1)) return false;
    return true;
}

bool equal_dicts(const Dict& left, const Dict& right, int depth) {
    if (left.members.size() != right.members.size()) return false;
    for (const auto& [name, value] : left.members) {
        const Datum* other = right.find(name);
        if (other == nullptr || !equal(value, *other, depth + 1)) return false;
    }
    return true;
}

// Compares exactly even if no double equals the integer.
int compare_mixed(int64_t whole, double real) {
    if (real >= 9223372036854775808.0) return -1;
    if (real < -9223372036854775808.0) return 1;
    const auto floor = static_cast<int64_t>(std::floor(real));
    if (whole != floor) return whole < floor ? -1 : 1;
    return real > std::floor(real) ? -1 : 0;
}

bool equal_numbers(const Datum& left, const Datum& right) {
    if (left.is_whole() && right.is_whole()) return left.integer() == right.integer();
    if (left.is(Kind::real) && right.is(Kind::real)) return left.real() == right.real();
    const double real = left.is(Kind::real) ? left.real() : right.real();
    if (std::isnan(real)) return false;
    return compare_mixed(left.is_whole() ? left.integer() : right.integer(), real) == 0;
}

bool less_numbers(const Datum& left, const Datum& right) {
    if (left.is_whole() && right.is_whole()) return left.integer() < right.integer();
    if (left.is(Kind::real) && right.is(Kind::real)) return left.real() < right.real();
    const double real = left.is(Kind::real) ? left.real() : right.real();
    if (std::isnan(real)) return false;
    if (left.is_whole()) return compare_mixed(left.integer(), real) < 0;
    return compare_mixed(right.integer(), real) > 0;
}

}  // namespace

bool is_same(const Datum& left, const Datum& right) {
    if (left.kind() != right.kind()) return false;
    switch (left.kind()) {
        case Kind::none: return true;
        case Kind::boolean: return left.truth() == right.truth();
        case Kind::integer: return left.integer() == right.integer();
        case Kind::large: return left.large() == right.large();
        case Kind::real: return left.real() == right.real();
        case Kind::text: return left.text() == right.text();
        case Kind::undefined: return false;
        default: return left.object() == right.object();
    }
}

bool equal(const Datum& left, const Datum& right, int depth) {
    check_depth(depth);
    if (left.is_number() && right.is_number()) return equal_numbers(left, right);
    if (left.kind() != right.kind()) return false;
    switch (left.kind()) {
        case Kind::undefined:
        case Kind::none: return true;
        case Kind::large: return left.large() == right.large();
        case Kind::text: return left.text() == right.text();
        case Kind::list:
        case Kind::tuple:
            return left.object() == right.object() ||
                   equal_items(left.items(), right.items(), depth);
        case Kind::dict:
            return left.object() == right.object() ||
                   equal_dicts(left.as<Dict>(), right.as<Dict>(), depth);
        case Kind::range: {
            const Range& a = left.as<Range>();
            const Range& b = right.as<Range>();
            return a.size == b.size && (a.size == 0 || a.start == b.start) &&
                   (a.size < 2 || a.step == b.step);
        }
        default: return left.object() == right.object();
    }
}

bool less(const Datum& left, const Datum& right, int depth) {
    check_depth(depth);
    if (left.is(Kind::undefined)) fail_undefined(left);
    if (right.is(Kind::undefined)) fail_undefined(right);
    if (left.is_number() && right.is_number()) return less_numbers(left, right);
    if (left.is(Kind::text) && right.is(Kind::text)) return left.text() < right.text();
    if (left.is_sequence() && left.kind() == right.kind()) {
        const auto& a = left.items();
        const auto& b = right.items();
        for (size_t i = 0; i < a.size() && i < b.size(); ++i)
            if (!equal(a[i], b[i], depth + 1)) return less(a[i], b[i], depth + 1);
        return a.size() < b.size();
    }
    fail("a {} and a {} have no order", type_name(left), type_name(right));
}

bool contains(Run& run, const Datum& whole, const Datum& part) {
    switch (whole.kind()) {
        case Kind::undefined: return false;
        case Kind::text:
            if (!part.is(Kind::text)) fail("only a text can be in a text, not {}", type_name(part));
            run.step(1 + whole.text().size() / 256);
            return whole.text().find(part.text()) != std::string_view::npos;
        case Kind::dict:
            check_key(part);
            run.step(1 + whole.as<Dict>().members.size() / 16);
            return whole.as<Dict>().find(part) != nullptr;
        case Kind::list:
        case Kind::tuple:
            run.step(1 + whole.items().size() / 16);
            for (const Datum& item : whole.items())
                if (equal(item, part)) return true;
            return false;
        case Kind::range:
        case Kind::view:
        case Kind::iterator: {
            if (whole.is(Kind::view) && whole.as<View>().of == View::Of::keys) check_key(part);
            Cursor cursor(run, whole);
            for (Datum item; cursor.next(run, item);)
                if (equal(item, part)) return true;
            return false;
        }
        default: fail("nothing can be in a {}", type_name(whole));
    }
}

int64_t length_of(const Datum& value) {
    switch (value.kind()) {
        case Kind::undefined: return 0;
        case Kind::text: return static_cast<int64_t>(count_code_points(value.text()));
        case Kind::list:
        case Kind::tuple: return static_cast<int64_t>(value.items().size());
        case Kind::dict: return static_cast<int64_t>(value.as<Dict>().members.size());
        case Kind::range: return value.as<Range>().size;
        case Kind::view: return static_cast<int64_t>(value.as<View>().dict->members.size());
        case Kind::iterator:
            fail("a {} has no length: put '| list' before '| length'", type_name(value));
        default: fail("a {} has no length", type_name(value));
    }
}

void check_key(const Datum& key) {
    switch (key.kind()) {
        case Kind::list:
        case Kind::dict: fail("a {} cannot be a key", type_name(key));
        case Kind::view:
            if (key.as<View>().of != View::Of::values) fail("a view of a dict cannot be a key");
            break;
        case Kind::tuple:
            for (const Datum& item : key.items()) check_key(item);
            break;
        default: break;
    }
}

}  // namespace ringshard::text::jinja
