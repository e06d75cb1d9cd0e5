#include "arrival_marks.hpp"

namespace ringshard::comm {

void mark_may_have_taken_in() {}
void mark_waited() {}

}  // namespace ringshard::comm
