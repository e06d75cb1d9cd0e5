#include <cmath>

#include "compare.hpp"
#include "printing.hpp"
#include "run.hpp"

// Python's arithmetic, on numbers of 64 bits.
namespace ringshard::text::jinja {

namespace {

constexpr const char* too_large = "the number does not fit into 64 bits";

std::string_view sign_text(Sign sign) {
    static constexpr std::array<std::string_view, 7> texts{"+", "-", "*", "/", "//", "%", "**"};
    return texts[static_cast<size_t>(sign)];
}

int64_t floor_divide(int64_t left, int64_t right) {
    if (right == 0) fail("division by zero");
    if (left == INT64_MIN && right == -1) fail(too_large);
    const int64_t quotient = left / right;
    return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

int64_t modulo(int64_t left, int64_t right) {
    if (right == 0) fail("division by zero");
    if (right == -1) return 0;
    const int64_t rest = left % right;
    return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

Datum power(int64_t base, int64_t exponent) {
    if (exponent < 0) {
        if (base == 0) fail("zero cannot be raised to a negative power");
        return Datum(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
    }
    int64_t result = 1;
    for (int64_t factor = base; exponent > 0; exponent >>= 1) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(result, factor, &result)) fail(too_large);
        if (exponent > 1 && __builtin_mul_overflow(factor, factor, &factor)) fail(too_large);
    }
    return Datum(result);
}

Datum whole_arithmetic(Sign sign, int64_t left, int64_t right) {
    int64_t result = 0;
    switch (sign) {
        case Sign::add:
            if (__builtin_add_overflow(left, right, &result)) fail(too_large);
            return Datum(result);
        case Sign::subtract:
            if (__builtin_sub_overflow(left, right, &result)) fail(too_large);
            return Datum(result);
        case Sign::multiply:
            if (__builtin_mul_overflow(left, right, &result)) fail(too_large);
            return Datum(result);
        case Sign::divide:
            if (right == 0) fail("division by zero");
            return Datum(static_cast<double>(left) / static_cast<double>(right));
        case Sign::floor_divide: return Datum(floor_divide(left, right));
        case Sign::modulo: return Datum(modulo(left, right));
        case Sign::power: return power(left, right);
    }
    return {};
}

double real_modulo(double left, double right) {
    const double rest = std::fmod(left, right);
    if (rest == 0) return std::copysign(0.0, right);
    return (rest < 0) != (right < 0) ? rest + right : rest;
}

double real_floor_divide(double left, double right) {
    const double rest = std::fmod(left, right);
    double quotient = (left - rest) / right;
    if (rest != 0 && (rest < 0) != (right < 0)) quotient -= 1;
    if (quotient == 0) return std::copysign(0.0, left / right);
    const double floor = std::floor(quotient);
    return quotient - floor > 0.5 ? floor + 1 : floor;
}

double real_power(double left, double right) {
    if (left == 0 && right < 0) fail("zero cannot be raised to a negative power");
    if (left < 0 && right != std::floor(right) && std::isfinite(left) && std::isfinite(right))
        fail("a root of a negative number is no real number");
    const double result = std::pow(left, right);
    if (std::isinf(result) && std::isfinite(left) && std::isfinite(right))
        fail("the number is too large");
    return result;
}

Datum real_arithmetic(Sign sign, double left, double right) {
    const bool divides = sign == Sign::divide || sign == Sign::floor_divide || sign == Sign::modulo;
    if (divides && right == 0) fail("division by zero");
    switch (sign) {
        case Sign::add: return Datum(left + right);
        case Sign::subtract: return Datum(left - right);
        case Sign::multiply: return Datum(left * right);
        case Sign::divide: return Datum(left / right);
        case Sign::floor_divide: return Datum(real_floor_divide(left, right));
        case Sign::modulo: return Datum(real_modulo(left, right));
        case Sign::power: return Datum(real_power(left, right));
    }
    return {};
}

Datum repeated(Run& run, const Datum& what, int64_t times) {
    const auto count = static_cast<uint64_t>(std::max<int64_t>(times, 0));
    if (what.is(Kind::text)) {
        run.check_size(count, what.text().size());
        std::string text;
        text.reserve(count * what.text().size());
        // A template can repeat an empty text any number of times.
        for (uint64_t i = 0; i < count && !what.text().empty(); ++i) text += what.text();
        const Datum made = run.heap.text(std::move(text));
        return what.is_markup() ? made.as_markup() : made;
    }
    run.check_size(count, what.items().size() * sizeof(Datum));
    std::vector<Datum> items;
    for (uint64_t i = 0; i < count && !what.items().empty(); ++i)
        items.insert(items.end(), what.items().begin(), what.items().end());
    run.step(items.size() / 16);
    return what.is(Kind::list) ? run.heap.list(std::move(items)) : run.heap.tuple(std::move(items));
}

[[noreturn]] void fail_for_kinds(Sign sign, const Datum& left, const Datum& right) {
    const bool joins_text = sign == Sign::add && (left.is(Kind::text) || right.is(Kind::text));
    fail("'{}' between {} and {}{}", sign_text(sign), type_name(left), type_name(right),
         joins_text ? ": '~' joins values of any kind as text" : "");
}

Datum joined_text(Run& run, const Datum& left, const Datum& right) {
    std::string text;
    if (!left.is_markup() && !right.is_markup()) {
        text.reserve(left.text().size() + right.text().size());
        text += left.text();
        text += right.text();
        return run.heap.text(std::move(text));
    }
    // Safe HTML plus text is safe HTML: escape the text.
    return run.heap.text(to_markup(left) + to_markup(right)).as_markup();
}

}  // namespace

Datum add(Run& run, const Datum& left, const Datum& right) {
    if (left.is(Kind::text) && right.is(Kind::text)) return joined_text(run, left, right);
    if (left.is_sequence() && left.kind() == right.kind()) {
        std::vector<Datum> items = left.items();
        items.insert(items.end(), right.items().begin(), right.items().end());
        run.step(items.size() / 16);
        return left.is(Kind::list) ? run.heap.list(std::move(items))
                                   : run.heap.tuple(std::move(items));
    }
    return arithmetic(run, Sign::add, left, right);
}

Datum arithmetic(Run& run, Sign sign, const Datum& left, const Datum& right) {
    if (left.is_whole() && right.is_whole())
        return whole_arithmetic(sign, left.integer(), right.integer());
    if (left.is_number() && right.is_number())
        return real_arithmetic(sign, left.real(), right.real());
    if (sign == Sign::modulo && left.is(Kind::text)) return percent_format(run, left.text(), right);
    if (left.is(Kind::undefined)) fail_undefined(left);
    if (right.is(Kind::undefined)) fail_undefined(right);
    const auto repeats = [](const Datum& what, const Datum& times) {
        return (what.is(Kind::text) || what.is_sequence()) && times.is_whole();
    };
    if (sign == Sign::multiply && repeats(left, right)) return repeated(run, left, right.integer());
    if (sign == Sign::multiply && repeats(right, left)) return repeated(run, right, left.integer());
    fail_for_kinds(sign, left, right);
}

}  // namespace ringshard::text::jinja
