// Hashes of tensors do not depend on the distribution of their elements, and differ for other
// tensors.
#include "ringshard/shard/tensor_sums.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "mpi_test.hpp"
#include "ringshard/shard/shard_layout.hpp"

using namespace ringshard;
using shard::TensorSums;

namespace {

constexpr int64_t size = 1000;

std::vector<float> some_values() {
    std::vector<float> values(size);
    std::iota(values.begin(), values.end(), -3.5F);
    return values;
}

// Of a tensor that the ranks of a group hold in parts, each of which it adds in pieces.
std::string hash_of(const comm::Group& group, const std::vector<float>& values, int64_t piece) {
    TensorSums sums({"tensor", "other"});
    const shard::Range mine = shard::part_of(size, group.rank(), group.size());
    for (int64_t begin = mine.begin; begin < mine.end; begin += piece) {
        const auto count = static_cast<size_t>(std::min(piece, mine.end - begin));
        sums.add("tensor", begin, std::span(values).subspan(static_cast<size_t>(begin), count));
        sums.add("nobody asks", begin, std::span(values).first(count));
    }
    const auto hashes = sums.over(group);
    BOOST_TEST(hashes.size() == 2);
    BOOST_TEST(hashes.at("other") == std::string(32, '0'));
    return hashes.at("tensor");
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_hash_does_not_depend_on_who_adds_what) {
    const comm::Group alone = test::world().split(test::world().rank(), "alone");
    const std::vector<float> values = some_values();
    const std::string whole = hash_of(alone, values, size);
    BOOST_TEST(whole.size() == 32);
    BOOST_TEST(hash_of(alone, values, 7) == whole);
    BOOST_TEST(hash_of(test::world(), values, 100) == whole);
}

BOOST_AUTO_TEST_CASE(another_value_or_order_has_another_hash) {
    const std::string hash = hash_of(test::world(), some_values(), 50);
    std::vector<float> values = some_values();
    values[617] = std::nextafter(values[617], 1e9F);
    BOOST_TEST(hash_of(test::world(), values, 50) != hash);
    values = some_values();
    std::swap(values[3], values[900]);
    BOOST_TEST(hash_of(test::world(), values, 50) != hash);
    values = some_values();
    values[3] = -values[3];
    BOOST_TEST(hash_of(test::world(), values, 50) != hash);
}

BOOST_AUTO_TEST_CASE(the_first_tensor_that_changed_is_found) {
    BOOST_TEST(
        !shard::first_changed({{"a", "1"}, {"b", "2"}}, {{"a", "1"}, {"b", "2"}, {"c", "3"}}));
    BOOST_TEST(*shard::first_changed({{"a", "1"}, {"b", "2"}}, {{"a", "1"}, {"b", "3"}}) == "b");
    BOOST_TEST(*shard::first_changed({{"a", "1"}, {"b", "2"}}, {{"b", "2"}}) == "a");
}
