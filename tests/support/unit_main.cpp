// main() of the tests that need one process.
#define BOOST_TEST_MODULE ringshard
#include <boost/test/unit_test.hpp>
