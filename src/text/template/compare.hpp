#pragma once

#include "datum.hpp"

namespace ringshard::text::jinja {

class Run;

bool truth_of(const Datum& value);
// Python's ==; never fails but for data that is nested too deep.
bool equal(const Datum& left, const Datum& right, int depth = 0);
// Python's <; fails for what has no order.
bool less(const Datum& left, const Datum& right, int depth = 0);
bool contains(Run& run, const Datum& whole, const Datum& part);
// len(); fails for what has none.
int64_t length_of(const Datum& value);
bool is_same(const Datum& left, const Datum& right);
// Fails for what cannot be a key.
void check_key(const Datum& key);

}  // namespace ringshard::text::jinja
