#include "compare.hpp"
#include "filters.hpp"

// map, select and similar filters: lazy, item by item.
namespace ringshard::text::jinja {

namespace {

struct Picker : Iterator {
    Picker(Heap& store, Run& owner, Datum over)
        : Iterator(store, 192), run(owner), input(std::move(over)) {}

    bool next(Datum& out) override {
        // Python tests for an empty input before it checks the arguments.
        if (!started && !truth_of(input)) return false;
        if (!started) {
            cursor = Cursor(run, input);
            prepare();
            started = true;
        }
        while (cursor.next(run, out)) {
            run.step();
            if (turn(out)) return true;
        }
        return false;
    }
    virtual void prepare() = 0;
    // Transforms the item, or returns false to drop it.
    virtual bool turn(Datum& item) = 0;

    Run& run;
    Datum input;
    Cursor cursor;
    bool started = false;
};

struct Mapping : Picker {
    Mapping(Heap& store, Run& owner, Datum over, Arguments given)
        : Picker(store, owner, std::move(over)), arguments(std::move(given)) {}

    void prepare() override {
        Datum attribute_name = arguments.positional.empty() ? arguments.take("attribute") : Datum();
        if (!attribute_name.is(Kind::missing)) {
            otherwise = arguments.take("default");
            if (!arguments.named.empty())
                fail("map takes no argument named '{}'", arguments.named.front().first.text());
            path.emplace(run, attribute_name);
            return;
        }
        if (arguments.positional.empty()) fail("map needs a filter or an attribute");
        const Datum name = arguments.positional.front();
        arguments.positional.erase(arguments.positional.begin());
        filter = name.is(Kind::text) ? find_filter(name.text()) : nullptr;
        if (filter == nullptr) fail("map: there is no such filter");
    }

    bool turn(Datum& item) override {
        if (path) {
            item = path->of(run, item, otherwise);
        } else {
            Arguments given = arguments;
            item = filter->apply(run, item, given);
        }
        return true;
    }

    Arguments arguments;
    std::optional<AttributePath> path;
    Datum otherwise;
    const FilterEntry* filter = nullptr;
};

struct Selection : Picker {
    Selection(Heap& store, Run& owner, Datum over, Arguments given, bool keep, bool of_attribute)
        : Picker(store, owner, std::move(over)),
          arguments(std::move(given)),
          keeps(keep),
          by_attribute(of_attribute) {}

    void prepare() override {
        auto& positional = arguments.positional;
        if (by_attribute) {
            if (positional.empty()) fail("selectattr and rejectattr need the name of an attribute");
            path.emplace(run, positional.front());
            positional.erase(positional.begin());
        }
        if (positional.empty()) return;
        const Datum name = positional.front();
        positional.erase(positional.begin());
        test = name.is(Kind::text) ? find_test(name.text()) : nullptr;
        if (test == nullptr) fail("select: there is no such test");
    }

    bool turn(Datum& item) override {
        const Datum asked = path ? path->of(run, item) : item;
        if (test == nullptr) return truth_of(asked) == keeps;
        Arguments given = arguments;
        return test->holds(run, asked, given) == keeps;
    }

    Arguments arguments;
    bool keeps, by_attribute;
    std::optional<AttributePath> path;
    const TestEntry* test = nullptr;
};

Datum map_filter(Run& run, const Datum& input, Arguments& arguments) {
    return {Kind::iterator, run.heap.make<Mapping>(run, input, arguments).get()};
}

template <bool keeps, bool by_attribute>
Datum select_filter(Run& run, const Datum& input, Arguments& arguments) {
    return {Kind::iterator,
            run.heap.make<Selection>(run, input, arguments, keeps, by_attribute).get()};
}

constexpr std::array<FilterEntry, 5> all_picking_filters{{
    {"map", map_filter},
    {"select", select_filter<true, false>},
    {"reject", select_filter<false, false>},
    {"selectattr", select_filter<true, true>},
    {"rejectattr", select_filter<false, true>},
}};

}  // namespace

std::span<const FilterEntry> picking_filters() { return all_picking_filters; }

}  // namespace ringshard::text::jinja
