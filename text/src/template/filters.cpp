#include "filters.hpp"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "compare.hpp"
#include "unicode/python_characters.hpp"

namespace ringshard::text::jinja {

const FilterEntry* find_filter(std::string_view name) {
    static const auto known = [] {
        std::unordered_map<std::string_view, const FilterEntry*> filters;
        for (const auto group : {text_filters(), markup_filters(), value_filters(),
                                 sequence_filters(), picking_filters()})
            for (const FilterEntry& filter : group) filters.emplace(filter.name, &filter);
        return filters;
    }();
    const auto found = known.find(name);
    return found == known.end() ? nullptr : found->second;
}

std::string reason_for_no_filter(std::string_view name) {
    if (name == "random") return ": its result would differ from run to run";
    if (name == "urlize" || name == "xmlattr")
        return ": it makes HTML, which chat templates do not";
    return "";
}

AttributePath::AttributePath(Run& run, const Datum& path) {
    if (path.is(Kind::none)) return;
    if (!path.is(Kind::text)) {
        parts_.push_back(path);
        return;
    }
    for (const std::string& part : split(path.text(), '.')) {
        const bool is_index =
            !part.empty() && part.size() < 10 &&
            std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
        parts_.push_back(is_index ? Datum(static_cast<int64_t>(std::stoll(part)))
                                  : run.heap.text(part));
    }
}

Datum AttributePath::of(Run& run, Datum value, const Datum& otherwise) const {
    for (const Datum& part : parts_) {
        value = element(run, value, part);
        const bool has_default = !otherwise.is(Kind::missing) && !otherwise.is(Kind::none);
        if (value.is(Kind::undefined) && has_default) value = otherwise;
    }
    return value;
}

Datum sort_key(Run& run, const Datum& value, bool case_sensitive) {
    if (case_sensitive || !value.is(Kind::text)) return value;
    return run.heap.text(lower(value.text()));
}

namespace {

struct ListIterator : Iterator {
    ListIterator(Heap& store, std::vector<Datum> all)
        : Iterator(store, 64 + sizeof(Datum) * all.size()), items(std::move(all)) {}
    bool next(Datum& out) override {
        if (at >= items.size()) return false;
        out = items[at++];
        return true;
    }
    std::vector<Datum> items;
    size_t at = 0;
};

}  // namespace

Datum generated(Run& run, std::vector<Datum> items) {
    return {Kind::iterator, run.heap.make<ListIterator>(std::move(items)).get()};
}

}  // namespace ringshard::text::jinja
