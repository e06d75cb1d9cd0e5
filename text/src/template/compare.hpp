#pragma once

#include "datum.hpp"

namespace ringshard::text::jinja {

class Run;

bool truth_of(const Datum& value);
// Python's ==; fails only for data that is nested too deeply.
bool equal(const Datum& left, const Datum& right, int depth = 0);
// Python's <; fails for values without an order.
bool less(const Datum& left, const Datum& right, int depth = 0);
bool contains(Run& run, const Datum& whole, const Datum& part);
// Python's len(); fails for values without a length.
int64_t length_of(const Datum& value);
bool is_same(const Datum& left, const Datum& right);
// Fails for values that cannot be keys.
void check_key(const Datum& key);

}  // namespace ringshard::text::jinja
