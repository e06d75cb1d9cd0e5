#include <algorithm>

#include "compare.hpp"
#include "loop.hpp"
#include "printing.hpp"
#include "run.hpp"
#include "unicode/python_characters.hpp"

// Attributes, elements, slices, iteration and calls.
namespace ringshard::text::jinja {

namespace {

// Returns true for members that every Python value has, and that jinja2's sandbox hides.
bool is_internal(std::string_view name) {
    static constexpr std::array<std::string_view, 14> names{
        "__class__", "__dict__",   "__doc__", "__init__",         "__module__",
        "__eq__",    "__hash__",   "__str__", "__repr__",         "__getattribute__",
        "__new__",   "__reduce__", "__dir__", "__init_subclass__"};
    return name.starts_with("__") && std::ranges::find(names, name) != names.end();
}

// Returns `missing` if there is no such attribute.
Datum own_attribute(Run& run, const Datum& of, const Datum& name) {
    if (is_internal(name.text())) return Datum::undefined(Lack::unsafe, name, of.kind());
    if (const MethodEntry* method = find_method(of.kind(), name.text())) {
        if (method->call == nullptr) return Datum::undefined(Lack::unsafe, name, of.kind());
        return {Kind::callable, run.heap.make<Method>(of, *method).get()};
    }
    switch (of.kind()) {
        case Kind::space:
            if (const Datum* member = of.as<Space>().members->find(name.text())) return *member;
            return {};
        case Kind::loop: return loop_attribute(run, of, name.text());
        case Kind::tuple:
            if (of.as<List>().is_group && name.text() == "grouper") return of.items()[0];
            if (of.as<List>().is_group && name.text() == "list") return of.items()[1];
            return {};
        case Kind::callable: return of.as<Callable>().attribute(name.text());
        case Kind::boolean:
        case Kind::integer:
            if (name.text() == "real" || name.text() == "numerator") return Datum(of.integer());
            if (name.text() == "imag") return Datum(int64_t{0});
            if (name.text() == "denominator") return Datum(int64_t{1});
            return {};
        case Kind::real:
            if (name.text() == "real") return of;
            if (name.text() == "imag") return Datum(0.0);
            return {};
        case Kind::range:
            if (name.text() == "start") return Datum(of.as<Range>().start);
            if (name.text() == "stop") return Datum(of.as<Range>().stop);
            if (name.text() == "step") return Datum(of.as<Range>().step);
            return {};
        default: return {};
    }
}

// Converts Python's index, which counts from the end if negative. Returns -1 if out of range.
int64_t position(int64_t index, size_t size) {
    const auto count = static_cast<int64_t>(size);
    const int64_t at = index < 0 ? index + count : index;
    return at < 0 || at >= count ? -1 : at;
}

Datum character(const Datum& text, int64_t index) {
    const std::string_view whole = text.text();
    const bool ascii = is_ascii(whole);
    const int64_t at = position(index, ascii ? whole.size() : count_code_points(whole));
    if (at < 0) return {};
    const size_t begin =
        ascii ? static_cast<size_t>(at) : byte_of_code_point(whole, static_cast<size_t>(at));
    std::string_view rest = whole.substr(begin);
    take_code_point(rest);
    const Datum part(text, whole.substr(begin, whole.size() - begin - rest.size()));
    return text.is_markup() ? part.as_markup() : part;
}

// Returns `missing` if there is no such element.
Datum own_element(Run& run, const Datum& of, const Datum& index) {
    if (of.is(Kind::dict)) {
        if (index.is(Kind::list) || index.is(Kind::dict)) return {};
        run.step(1 + of.as<Dict>().members.size() / 64);
        const Datum* member = of.as<Dict>().find(index);
        return member != nullptr ? *member : Datum();
    }
    if (!index.is_whole()) return {};
    if (of.is_sequence()) {
        const int64_t at = position(index.integer(), of.items().size());
        return at < 0 ? Datum() : of.items()[static_cast<size_t>(at)];
    }
    if (of.is(Kind::text)) {
        run.step(1 + of.text().size() / 256);
        return character(of, index.integer());
    }
    if (of.is(Kind::range)) {
        const Range& range = of.as<Range>();
        const int64_t at = position(index.integer(), static_cast<size_t>(range.size));
        return at < 0 ? Datum() : Datum(range.at(at));
    }
    return {};
}

}  // namespace

Datum attribute(Run& run, const Datum& of, const Datum& name) {
    if (of.is(Kind::undefined) || of.is(Kind::missing)) fail_undefined(of);
    Datum found = own_attribute(run, of, name);
    if (found.is(Kind::missing)) found = own_element(run, of, name);
    return found.is(Kind::missing) ? Datum::undefined(Lack::attribute, name, of.kind()) : found;
}

Datum element(Run& run, const Datum& of, const Datum& index) {
    if (of.is(Kind::undefined) || of.is(Kind::missing)) fail_undefined(of);
    Datum found = own_element(run, of, index);
    if (found.is(Kind::missing) && index.is(Kind::text)) found = own_attribute(run, of, index);
    return found.is(Kind::missing) ? Datum::undefined(Lack::element, index, of.kind()) : found;
}

namespace {

struct Bounds {
    int64_t start, stop, step, count;
};

// Computes the bounds of a slice of `size` items by Python's rule.
Bounds bounds_of(const Datum& start, const Datum& stop, const Datum& step, int64_t size) {
    for (const Datum* bound : {&start, &stop, &step}) {
        if (bound->is(Kind::undefined)) fail_undefined(*bound);
        if (!bound->is(Kind::none) && !bound->is_whole())
            fail("the bounds of a slice are whole numbers, not {}", type_name(*bound));
    }
    const int64_t stride = step.is(Kind::none) ? 1 : step.integer();
    if (stride == 0) fail("the step of a slice is zero");
    const int64_t low = stride < 0 ? -1 : 0;
    const int64_t high = stride < 0 ? size - 1 : size;
    const auto place = [&](const Datum& bound, int64_t otherwise) {
        if (bound.is(Kind::none)) return otherwise;
        const int64_t at = bound.integer() < 0 ? bound.integer() + size : bound.integer();
        return std::clamp(at, low, high);
    };
    const int64_t begin = place(start, stride < 0 ? high : low);
    const int64_t end = place(stop, stride < 0 ? low : high);
    if (stride > 0) return {begin, end, stride, begin < end ? (end - begin - 1) / stride + 1 : 0};
    if (begin <= end) return {begin, end, stride, 0};
    const auto width = stride == INT64_MIN ? INT64_MAX : -stride;
    return {begin, end, stride, (begin - end - 1) / width + 1};
}

Datum text_slice(Run& run, const Datum& of, const Bounds& bounds, bool ascii) {
    const std::string_view whole = of.text();
    run.step(1 + whole.size() / 64);
    const auto at = [&](int64_t index) {
        return ascii ? static_cast<size_t>(index)
                     : byte_of_code_point(whole, static_cast<size_t>(index));
    };
    if (bounds.count == 0) return {of, whole.substr(0, 0)};
    if (bounds.step == 1) {
        const size_t begin = at(bounds.start);
        if (ascii) return {of, whole.substr(begin, static_cast<size_t>(bounds.count))};
        const std::string_view rest = whole.substr(begin);
        return {of, rest.substr(0, byte_of_code_point(rest, static_cast<size_t>(bounds.count)))};
    }
    std::u32string points;
    for (std::string_view rest = whole; !rest.empty();) points += take_code_point(rest);
    std::string picked;
    for (int64_t i = 0; i < bounds.count; ++i)
        append_code_point(picked, points[static_cast<size_t>(bounds.start + i * bounds.step)]);
    return run.heap.text(std::move(picked));
}

}  // namespace

Datum call_method(Run& run, const MethodEntry& method, const Datum& self, Arguments& arguments) {
    const Datum result = method.call(run, self, arguments);
    if (!self.is(Kind::text) || !self.is_markup()) return result;
    // Parts of safe HTML are safe HTML.
    if (result.is(Kind::text)) return result.as_markup();
    if (!result.is_sequence()) return result;
    std::vector<Datum> parts;
    for (const Datum& part : result.items())
        parts.push_back(part.is(Kind::text) ? part.as_markup() : part);
    return result.is(Kind::list) ? run.heap.list(std::move(parts))
                                 : run.heap.tuple(std::move(parts));
}

Datum slice(Run& run, const Datum& of, const Datum& start, const Datum& stop, const Datum& step) {
    if (of.is(Kind::text)) {
        const bool ascii = is_ascii(of.text());
        const size_t size = ascii ? of.text().size() : count_code_points(of.text());
        const Datum part =
            text_slice(run, of, bounds_of(start, stop, step, static_cast<int64_t>(size)), ascii);
        return of.is_markup() ? part.as_markup() : part;
    }
    if (of.is(Kind::undefined)) fail_undefined(of);
    if (of.is(Kind::range)) {
        const Range& range = of.as<Range>();
        const Bounds bounds = bounds_of(start, stop, step, range.size);
        const auto at = [&](int64_t index) {
            int64_t place = 0;
            if (__builtin_mul_overflow(index, range.step, &place) ||
                __builtin_add_overflow(place, range.start, &place))
                fail("the numbers of the range do not fit into 64 bits");
            return place;
        };
        int64_t stride = 0;
        if (__builtin_mul_overflow(range.step, bounds.step, &stride))
            fail("the numbers of the range do not fit into 64 bits");
        return {Kind::range, run.heap.make<Range>(at(bounds.start), at(bounds.stop), stride).get()};
    }
    if (!of.is_sequence()) fail("a {} cannot be cut into slices", type_name(of));
    const auto size = static_cast<int64_t>(of.items().size());
    const Bounds bounds = bounds_of(start, stop, step, size);
    run.step(1 + static_cast<uint64_t>(bounds.count) / 16);
    std::vector<Datum> items;
    items.reserve(static_cast<size_t>(bounds.count));
    for (int64_t i = 0; i < bounds.count; ++i)
        items.push_back(of.items()[static_cast<size_t>(bounds.start + i * bounds.step)]);
    return of.is(Kind::list) ? run.heap.list(std::move(items)) : run.heap.tuple(std::move(items));
}

Cursor::Cursor(Run&, Datum over) : over_(std::move(over)), knows_size_(true) {
    switch (over_.kind()) {
        case Kind::undefined: break;
        case Kind::text:
        case Kind::list:
        case Kind::tuple:
        case Kind::dict:
        case Kind::range:
        case Kind::view: size_ = static_cast<size_t>(length_of(over_)); break;
        case Kind::iterator: knows_size_ = false; break;
        default: fail("a {} cannot be gone over", type_name(over_));
    }
}

bool Cursor::next(Run& run, Datum& out) {
    if (over_.is(Kind::iterator)) {
        run.step();
        return over_.as<Iterator>().next(out);
    }
    if (over_.is(Kind::text)) {
        // at_ counts bytes here.
        if (at_ >= over_.text().size()) return false;
        std::string_view rest = over_.text().substr(at_);
        const size_t before = rest.size();
        take_code_point(rest);
        out = Datum(over_, over_.text().substr(at_, before - rest.size()));
        at_ += before - rest.size();
        return true;
    }
    if (at_ >= size_) return false;
    const size_t at = at_++;
    switch (over_.kind()) {
        case Kind::dict: out = over_.as<Dict>().members[at].first; break;
        case Kind::range: out = Datum(over_.as<Range>().at(static_cast<int64_t>(at))); break;
        case Kind::view: {
            const View& view = over_.as<View>();
            const auto& [name, value] = view.dict->members[at];
            out = view.of == View::Of::keys     ? name
                  : view.of == View::Of::values ? value
                                                : run.heap.tuple({name, value});
            break;
        }
        default: out = over_.items()[at];
    }
    return true;
}

std::vector<Datum> all_of(Run& run, const Datum& iterable) {
    if (iterable.is_sequence()) {
        run.step(1 + iterable.items().size() / 16);
        return iterable.items();
    }
    Cursor cursor(run, iterable);
    std::vector<Datum> items;
    for (Datum item; cursor.next(run, item);) {
        run.step();
        run.check_size(items.size() + 1, sizeof(Datum));
        items.push_back(item);
    }
    return items;
}

Datum call_datum(Run& run, const Datum& callee, Arguments& arguments) {
    if (callee.is(Kind::undefined)) fail_undefined(callee);
    if (!callee.is(Kind::callable) && !callee.is(Kind::loop))
        fail("a {} cannot be called", type_name(callee));
    // Keep it alive: the call may change the variable that holds it.
    const Datum held = callee;
    return static_cast<Callable*>(held.object())->call(run, arguments);
}

Datum Arguments::take(std::string_view name) {
    for (auto argument = named.begin(); argument != named.end(); ++argument) {
        if (argument->first.text() != name) continue;
        Datum value = std::move(argument->second);
        named.erase(argument);
        return value;
    }
    return {};
}

Bound::Bound(Arguments& arguments, std::string_view function,
             std::initializer_list<std::string_view> parameters, size_t required)
    : function_(function), names_(parameters), values_(parameters.size()) {
    if (arguments.positional.size() > names_.size())
        fail("{} takes {} arguments, not {}", function, names_.size(), arguments.positional.size());
    for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = arguments.positional[i];
    for (const auto& [name, value] : arguments.named) {
        const auto found = std::ranges::find(names_, name.text());
        if (found == names_.end()) fail("{} takes no argument named '{}'", function, name.text());
        Datum& place = values_[static_cast<size_t>(found - names_.begin())];
        if (!place.is(Kind::missing)) fail("the argument '{}' is given twice", name.text());
        place = value;
    }
    for (size_t i = 0; i < required; ++i)
        if (!has(i)) fail("{} needs the argument '{}'", function, names_[i]);
}

std::string_view Bound::text_or(size_t index, std::string_view otherwise) const {
    if (!has(index)) return otherwise;
    if (values_[index].is(Kind::undefined)) fail_undefined(values_[index]);
    if (!values_[index].is(Kind::text))
        fail("{}: '{}' is a text, not {}", function_, names_[index], type_name(values_[index]));
    return values_[index].text();
}

int64_t Bound::integer_or(size_t index, int64_t otherwise) const {
    if (!has(index)) return otherwise;
    if (values_[index].is(Kind::undefined)) fail_undefined(values_[index]);
    if (!values_[index].is_whole())
        fail("{}: '{}' is a whole number, not {}", function_, names_[index],
             type_name(values_[index]));
    return values_[index].integer();
}

bool Bound::truth_or(size_t index, bool otherwise) const {
    return has(index) ? truth_of(values_[index]) : otherwise;
}

}  // namespace ringshard::text::jinja
