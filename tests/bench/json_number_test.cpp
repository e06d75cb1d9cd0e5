// Numbers that the benchmarks of GPUs print: scripts/gpu-check reads them as JSON.
#include "gpu/json_number.hpp"

#include <boost/test/unit_test.hpp>
#include <limits>

using ringshard::json_number;

BOOST_AUTO_TEST_CASE(numbers_that_are_not_finite_are_null) {
    BOOST_TEST(json_number(0.5) == "0.5");
    BOOST_TEST(json_number(-1200) == "-1200");
    BOOST_TEST(json_number(std::numeric_limits<double>::quiet_NaN()) == "null");
    BOOST_TEST(json_number(std::numeric_limits<double>::infinity()) == "null");
}
