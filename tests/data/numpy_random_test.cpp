#include "numpy_random.hpp"

#include <boost/test/unit_test.hpp>

#include "data_golden.hpp"

using namespace ringshard;

BOOST_AUTO_TEST_CASE(permutations_are_those_of_numpy) {
    const text::Value golden = test::read_json("order/order.json");
    const auto& cases = *golden.find("dataset_shuffle")->list();
    BOOST_TEST_REQUIRE(!cases.empty());
    for (const text::Value& one : cases) {
        const auto expected = test::integers(*one.find("order"));
        const auto order = data::numpy_permutation(
            static_cast<uint64_t>(*one.find("seed")->integer()), *one.find("n")->integer());
        BOOST_TEST(order == expected, boost::test_tools::per_element());
        std::vector<data::Piece> pieces(expected.size());
        for (size_t i = 0; i < pieces.size(); ++i) pieces[i].begin = i;
        data::numpy_shuffle(static_cast<uint64_t>(*one.find("seed")->integer()), std::span(pieces));
        for (size_t i = 0; i < pieces.size(); ++i)
            BOOST_TEST(pieces[i].begin == static_cast<uint64_t>(expected[i]));
    }
}
