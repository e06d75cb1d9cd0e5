#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "datum.hpp"

// The callables of expressions: filters, tests, methods and global functions.
namespace ringshard::text::jinja {

class Run;

struct Arguments {
    std::vector<Datum> positional;
    std::vector<std::pair<Datum, Datum>> named;

    bool empty() const { return positional.empty() && named.empty(); }
    // Removes and returns the argument of that name.
    Datum take(std::string_view name);
};

// The arguments of a call by parameter, in Python's order.
class Bound {
public:
    // Parameters before `required` are mandatory.
    Bound(Arguments& arguments, std::string_view function,
          std::initializer_list<std::string_view> parameters, size_t required = 0);

    bool has(size_t index) const { return !values_[index].is(Kind::missing); }
    const Datum& operator[](size_t index) const { return values_[index]; }
    Datum value_or(size_t index, Datum otherwise) const {
        return has(index) ? values_[index] : otherwise;
    }
    // Convert like Python's functions; a failure names the parameter.
    std::string_view text_or(size_t index, std::string_view otherwise) const;
    int64_t integer_or(size_t index, int64_t otherwise) const;
    bool truth_or(size_t index, bool otherwise) const;

private:
    std::string_view function_;
    std::vector<std::string_view> names_;
    std::vector<Datum> values_;
};

struct FilterEntry {
    std::string_view name;
    Datum (*apply)(Run&, const Datum& input, Arguments&);
};
const FilterEntry* find_filter(std::string_view name);
// Returns " (it is not supported because ...)" for jinja2's filters that are missing here.
std::string reason_for_no_filter(std::string_view name);

struct TestEntry {
    std::string_view name;
    bool (*holds)(Run&, const Datum& input, Arguments&);
};
const TestEntry* find_test(std::string_view name);

struct MethodEntry {
    std::string_view name;
    Datum (*call)(Run&, const Datum& self, Arguments&);  // nullptr: it would change the value
};
const MethodEntry* find_method(Kind kind, std::string_view name);
const MethodEntry* find_text_method(std::string_view name);

struct Callable : Object {
    using Object::Object;
    virtual Datum call(Run& run, Arguments& arguments) = 0;
    virtual std::string print() const = 0;
    // Returns `missing` if there is none.
    virtual Datum attribute(std::string_view) { return {}; }
};

struct Method : Callable {
    Method(Heap& store, Datum of, const MethodEntry& what)
        : Callable(store), self(std::move(of)), entry(what) {}
    Datum call(Run& run, Arguments& arguments) override;
    std::string print() const override;
    Datum self;
    const MethodEntry& entry;
};

// Returns range, dict, namespace, ...; `missing` if the name is unknown.
Datum global(Run& run, std::string_view name);

}  // namespace ringshard::text::jinja
