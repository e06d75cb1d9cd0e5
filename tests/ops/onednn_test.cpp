// The cache of products that oneDNN has compiled does not grow without bound.
#include <boost/test/unit_test.hpp>
#include <vector>

#include "onednn_matmul.hpp"

using namespace ringshard;

BOOST_AUTO_TEST_CASE(rows_of_many_lengths) {
    const auto matmul = ops::OnednnMatmul::open().value();
    constexpr int64_t width = 8;
    constexpr int64_t most_rows = 1100;
    std::vector<float> x(most_rows * width, 1);
    std::vector<float> weight(width * width, 1);
    std::vector<float> y(most_rows * width);
    const auto matrix = [](std::vector<float>& data, int64_t rows) {
        return ops::StridedMatrix{data.data(), {rows, width}, {width, 1}, false};
    };
    size_t most_kept = 0;
    for (int64_t rows = 1; rows <= most_rows; ++rows) {
        matmul->multiply(matrix(y, rows), matrix(x, rows), matrix(weight, width), nullptr);
        most_kept = std::max(most_kept, matmul->num_kept());
        BOOST_TEST_REQUIRE(y[static_cast<size_t>(rows * width - 1)] == width);
    }
    BOOST_TEST(most_kept == 512U);
    const size_t before = matmul->num_kept();
    for (int i = 0; i < 3; ++i)
        matmul->multiply(matrix(y, most_rows), matrix(x, most_rows), matrix(weight, width),
                         nullptr);
    BOOST_TEST(matmul->num_kept() == before);
}
