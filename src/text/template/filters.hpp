#pragma once

#include <span>

#include "run.hpp"

// The filters, by what they work on.
namespace ringshard::text::jinja {

std::span<const FilterEntry> text_filters();
std::span<const FilterEntry> markup_filters();
std::span<const FilterEntry> value_filters();
std::span<const FilterEntry> sequence_filters();
std::span<const FilterEntry> picking_filters();

// What 'user.name' or 1 as the attribute of sort, map and the like asks for.
class AttributePath {
public:
    AttributePath(Run& run, const Datum& path);
    // missing stays undefined; with a default that is taken instead
    Datum of(Run& run, Datum value, const Datum& otherwise = {}) const;

private:
    std::vector<Datum> parts_;
};

// Texts without regard to case, unless that is asked for.
Datum sort_key(Run& run, const Datum& value, bool case_sensitive);
// Lazily, as Python's generators.
Datum generated(Run& run, std::vector<Datum> items);

}  // namespace ringshard::text::jinja
