#pragma once

#include <span>

#include "run.hpp"

// The filters, by type of input.
namespace ringshard::text::jinja {

std::span<const FilterEntry> text_filters();
std::span<const FilterEntry> markup_filters();
std::span<const FilterEntry> value_filters();
std::span<const FilterEntry> sequence_filters();
std::span<const FilterEntry> picking_filters();

// The attribute of sort, map and similar filters: 'user.name' or 1.
class AttributePath {
public:
    AttributePath(Run& run, const Datum& path);
    // Returns the attribute; if it is missing, `otherwise` or undefined.
    Datum of(Run& run, Datum value, const Datum& otherwise = {}) const;

private:
    std::vector<Datum> parts_;
};

// Folds the case of texts unless case_sensitive.
Datum sort_key(Run& run, const Datum& value, bool case_sensitive);
// Returns a generator, like Python's.
Datum generated(Run& run, std::vector<Datum> items);

}  // namespace ringshard::text::jinja
