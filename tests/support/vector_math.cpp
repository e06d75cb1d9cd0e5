// Beside the main() of tests whose operations run on several threads.
#include "ringshard/ops/vector_math.hpp"

#include <boost/test/unit_test.hpp>

namespace {

struct ResolvedVectorMath {
    ResolvedVectorMath() { ringshard::ops::resolve_vector_math(); }
};

}  // namespace

BOOST_TEST_GLOBAL_FIXTURE(ResolvedVectorMath);
