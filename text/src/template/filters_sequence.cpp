#include <algorithm>

#include "compare.hpp"
#include "filters.hpp"
#include "printing.hpp"

// Filters on lists and other iterables.
namespace ringshard::text::jinja {

namespace {

// Computes its items at the first next(), like a Python generator.
struct LateIterator : Iterator {
    LateIterator(Heap& store, Run& owner, std::vector<Datum> values,
                 std::vector<Datum> (*function)(Run&, const std::vector<Datum>&))
        : Iterator(store, 128), run(owner), given(std::move(values)), make(function) {}
    bool next(Datum& out) override {
        if (!made) items = make(run, given);
        made = true;
        if (at >= items.size()) return false;
        out = items[at++];
        return true;
    }
    Run& run;
    std::vector<Datum> given;
    std::vector<Datum> (*make)(Run&, const std::vector<Datum>&);
    std::vector<Datum> items;
    bool made = false;
    size_t at = 0;
};

Datum late(Run& run, std::vector<Datum> given,
           std::vector<Datum> (*make)(Run&, const std::vector<Datum>&)) {
    return {Kind::iterator, run.heap.make<LateIterator>(run, std::move(given), make).get()};
}

Datum first_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "first", {});
    static constexpr std::string_view message = "there is no first item: the sequence is empty";
    Datum first;
    Cursor cursor(run, input);
    return cursor.next(run, first) ? first : Datum::undefined(Lack::told, message);
}

Datum last_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "last", {});
    static constexpr std::string_view message = "there is no last item: the sequence is empty";
    if (input.is(Kind::iterator)) fail("last of a {}: put '| list' before it", type_name(input));
    if (input.is(Kind::text) || input.is_sequence()) {
        const Datum last = element(run, input, Datum(int64_t{-1}));
        return last.is(Kind::undefined) && length_of(input) == 0
                   ? Datum::undefined(Lack::told, message)
                   : last;
    }
    const std::vector<Datum> items = all_of(run, input);
    return items.empty() ? Datum::undefined(Lack::told, message) : items.back();
}

Datum length_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "length", {});
    if (input.is(Kind::loop)) return attribute(run, input, Datum(std::string_view("length")));
    return Datum(length_of(input));
}

Datum list_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "list", {});
    return run.heap.list(all_of(run, input));
}

Datum join_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "join", {"d", "attribute"});
    const AttributePath path(run, bound.value_or(1, Datum::none()));
    const std::string between = bound.has(0) ? to_text(bound[0]) : "";
    std::string text;
    bool markup = false;
    bool first = true;
    for (const Datum& item : all_of(run, input)) {
        run.step();
        if (!first) text += between;
        first = false;
        const Datum part = path.of(run, item);
        markup = markup || (run.escapes && part.is(Kind::text) && part.is_markup());
        append_text(text, part);
        run.check_size(text.size(), 1);
    }
    const Datum made = run.heap.text(std::move(text));
    return markup ? made.as_markup() : made;
}

// Returns one key per comma-separated attribute.
std::vector<Datum> sort_keys(Run& run, const Datum& item, const std::vector<AttributePath>& paths,
                             bool case_sensitive) {
    std::vector<Datum> keys;
    for (const AttributePath& path : paths)
        keys.push_back(sort_key(run, path.of(run, item), case_sensitive));
    return keys;
}

struct Keyed {
    Datum key;
    Datum item;
};

void sort_stably(Run& run, std::vector<Keyed>& items, bool reverse) {
    for (size_t width = items.size(); width > 0; width /= 2) run.step(items.size());
    std::ranges::stable_sort(items, [reverse](const Keyed& a, const Keyed& b) {
        return reverse ? less(b.key, a.key) : less(a.key, b.key);
    });
}

Datum sort_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "sort", {"reverse", "case_sensitive", "attribute"});
    std::vector<AttributePath> paths;
    if (bound.has(2) && bound[2].is(Kind::text)) {
        for (const std::string& name : split(bound[2].text(), ','))
            paths.emplace_back(run, run.heap.text(name));
    } else {
        paths.emplace_back(run, bound.value_or(2, Datum::none()));
    }
    std::vector<Keyed> items;
    for (const Datum& item : all_of(run, input)) {
        std::vector<Datum> keys = sort_keys(run, item, paths, bound.truth_or(1, false));
        // The keys are always a list: items with equal keys need no order.
        items.push_back({run.heap.list(std::move(keys)), item});
    }
    sort_stably(run, items, bound.truth_or(0, false));
    std::vector<Datum> sorted;
    for (Keyed& item : items) sorted.push_back(std::move(item.item));
    return run.heap.list(std::move(sorted));
}

Datum dictsort_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "dictsort", {"case_sensitive", "by", "reverse"});
    const std::string_view by = bound.text_or(1, "key");
    if (by != "key" && by != "value") fail("dictsort: 'by' is key or value, not '{}'", by);
    if (input.is(Kind::undefined)) fail_undefined(input);
    if (!input.is(Kind::dict)) fail("dictsort of a {}", type_name(input));
    std::vector<Keyed> items;
    for (const auto& [name, value] : input.as<Dict>().members)
        items.push_back({sort_key(run, by == "key" ? name : value, bound.truth_or(0, false)),
                         run.heap.tuple({name, value})});
    sort_stably(run, items, bound.truth_or(2, false));
    std::vector<Datum> sorted;
    for (Keyed& item : items) sorted.push_back(std::move(item.item));
    return run.heap.list(std::move(sorted));
}

std::vector<Datum> unique_items(Run& run, const std::vector<Datum>& given) {
    const AttributePath path(run, given[2]);
    std::vector<Datum> seen;
    std::vector<Datum> items;
    for (const Datum& item : all_of(run, given[0])) {
        const Datum key = sort_key(run, path.of(run, item), truth_of(given[1]));
        check_key(key);
        run.step(1 + seen.size() / 16);
        const bool known =
            std::ranges::any_of(seen, [&](const Datum& old) { return equal(old, key); });
        if (known) continue;
        seen.push_back(key);
        items.push_back(item);
    }
    return items;
}

Datum unique_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "unique", {"case_sensitive", "attribute"});
    return late(run, {input, bound.value_or(0, Datum(false)), bound.value_or(1, Datum::none())},
                unique_items);
}

Datum extreme(Run& run, const Datum& input, Arguments& arguments, bool largest) {
    const Bound bound(arguments, largest ? "max" : "min", {"case_sensitive", "attribute"});
    const AttributePath path(run, bound.value_or(1, Datum::none()));
    const std::vector<Datum> items = all_of(run, input);
    static constexpr std::string_view message = "there is no item: the sequence is empty";
    if (items.empty()) return Datum::undefined(Lack::told, message);
    const auto key_of = [&](const Datum& item) {
        return sort_key(run, path.of(run, item), bound.truth_or(0, false));
    };
    const Datum* best = &items.front();
    Datum best_key = key_of(*best);
    for (size_t i = 1; i < items.size(); ++i) {
        run.step();
        Datum key = key_of(items[i]);
        if (!(largest ? less(best_key, key) : less(key, best_key))) continue;
        best = &items[i];
        best_key = std::move(key);
    }
    return *best;
}

Datum min_filter(Run& run, const Datum& input, Arguments& arguments) {
    return extreme(run, input, arguments, false);
}
Datum max_filter(Run& run, const Datum& input, Arguments& arguments) {
    return extreme(run, input, arguments, true);
}

Datum sum_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "sum", {"attribute", "start"});
    const AttributePath path(run, bound.value_or(0, Datum::none()));
    Datum sum = bound.value_or(1, Datum(int64_t{0}));
    if (sum.is(Kind::text)) fail("sum of texts: 'join' joins them");
    for (const Datum& item : all_of(run, input)) {
        run.step();
        sum = add(run, sum, path.of(run, item));
    }
    return sum;
}

Datum reverse_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "reverse", {});
    if (input.is(Kind::text)) {
        const Datum reversed = slice(run, input, Datum::none(), Datum::none(), Datum(int64_t{-1}));
        return reversed;
    }
    std::vector<Datum> items = all_of(run, input);
    std::ranges::reverse(items);
    if (input.is(Kind::iterator)) return run.heap.list(std::move(items));
    return generated(run, std::move(items));
}

std::vector<Datum> batches(Run& run, const std::vector<Datum>& given) {
    const auto size = static_cast<size_t>(given[1].integer());
    std::vector<Datum> rows;
    std::vector<Datum> row;
    for (const Datum& item : all_of(run, given[0])) {
        if (row.size() == size) rows.push_back(run.heap.list(std::exchange(row, {})));
        row.push_back(item);
    }
    if (row.empty()) return rows;
    if (!given[2].is(Kind::none)) {
        run.check_size(size, sizeof(Datum));
        if (row.size() < size) row.resize(size, given[2]);
    }
    rows.push_back(run.heap.list(std::move(row)));
    return rows;
}

Datum batch_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "batch", {"linecount", "fill_with"}, 1);
    const int64_t size = bound.integer_or(0, 1);
    if (size < 1) fail("batch: {} items in a row", size);
    return late(run, {input, Datum(size), bound.value_or(1, Datum::none())}, batches);
}

std::vector<Datum> slices(Run& run, const std::vector<Datum>& given) {
    const std::vector<Datum> items = all_of(run, given[0]);
    const auto count = static_cast<size_t>(given[1].integer());
    run.check_size(count, 2 * sizeof(Datum));
    run.step(count);
    const size_t length = items.size() / count;
    const size_t longer = items.size() % count;
    std::vector<Datum> columns;
    auto next = items.begin();
    for (size_t i = 0; i < count; ++i) {
        const auto end = next + static_cast<ptrdiff_t>(length + (i < longer ? 1 : 0));
        std::vector<Datum> column(next, end);
        next = end;
        if (!given[2].is(Kind::none) && i >= longer) column.push_back(given[2]);
        columns.push_back(run.heap.list(std::move(column)));
    }
    return columns;
}

Datum slice_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "slice", {"slices", "fill_with"}, 1);
    const int64_t count = bound.integer_or(0, 1);
    if (count < 1) fail("slice into {} parts", count);
    return late(run, {input, Datum(count), bound.value_or(1, Datum::none())}, slices);
}

std::vector<Datum> dict_items(Run& run, const std::vector<Datum>& given) {
    if (given[0].is(Kind::undefined)) return {};
    if (!given[0].is(Kind::dict)) fail("items of a {}: it needs a dict", type_name(given[0]));
    std::vector<Datum> pairs;
    for (const auto& [name, value] : given[0].as<Dict>().members)
        pairs.push_back(run.heap.tuple({name, value}));
    return pairs;
}

Datum items_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "items", {});
    return late(run, {input}, dict_items);
}

Datum groupby_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "groupby", {"attribute", "default", "case_sensitive"}, 1);
    const AttributePath path(run, bound[0]);
    const Datum otherwise = bound.value_or(1, Datum::none());
    const bool case_sensitive = bound.truth_or(2, false);
    std::vector<Keyed> items;
    for (const Datum& item : all_of(run, input))
        items.push_back({sort_key(run, path.of(run, item, otherwise), case_sensitive), item});
    sort_stably(run, items, false);
    std::vector<Datum> groups;
    for (size_t begin = 0; begin < items.size();) {
        size_t end = begin;
        std::vector<Datum> members;
        for (; end < items.size() && equal(items[end].key, items[begin].key); ++end)
            members.push_back(items[end].item);
        // The first member's key, in its own spelling, names the group.
        const Datum group = run.heap.tuple(
            {path.of(run, items[begin].item, otherwise), run.heap.list(std::move(members))});
        group.as<List>().is_group = true;
        groups.push_back(group);
        begin = end;
    }
    return run.heap.list(std::move(groups));
}

constexpr std::array<FilterEntry, 17> all_sequence_filters{{
    {"first", first_filter},
    {"last", last_filter},
    {"length", length_filter},
    {"count", length_filter},
    {"list", list_filter},
    {"join", join_filter},
    {"sort", sort_filter},
    {"dictsort", dictsort_filter},
    {"unique", unique_filter},
    {"min", min_filter},
    {"max", max_filter},
    {"sum", sum_filter},
    {"reverse", reverse_filter},
    {"batch", batch_filter},
    {"slice", slice_filter},
    {"items", items_filter},
    {"groupby", groupby_filter},
}};

}  // namespace

std::span<const FilterEntry> sequence_filters() { return all_sequence_filters; }

}  // namespace ringshard::text::jinja
