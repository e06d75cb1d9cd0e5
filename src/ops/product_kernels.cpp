#include "ringshard/ops/product_kernels.hpp"

#include <algorithm>
#include <limits>

#include "ringshard/base/text.hpp"

namespace ringshard::ops {

std::string name_of(const LayerProduct& product) {
    return format_text("{} {} tokens {}x{}", to_text(product.pass), product.tokens, product.out,
                       product.in);
}

bool is_worth_timing(const LayerProduct& product) {
    constexpr double most_operations = 1e13;  // 15 ms of an H100
    return product.tokens > 0 && 2.0 * static_cast<double>(product.tokens) *
                                         static_cast<double>(product.out) *
                                         static_cast<double>(product.in) <
                                     most_operations;
}

std::vector<double> time_kernels(ProductKernels& kernels, const LayerProduct& product,
                                 int64_t count) {
    constexpr int rounds = 3;
    std::vector<double> shortest(static_cast<size_t>(count),
                                 std::numeric_limits<double>::infinity());
    for (int round = 0; round < rounds; ++round)
        for (int64_t kernel = 0; kernel < count; ++kernel) {
            double& seconds = shortest[static_cast<size_t>(kernel)];
            seconds = std::min(seconds, kernels.seconds(product, kernel));
        }
    return shortest;
}

int64_t fastest_kernel(std::span<const double> seconds) {
    constexpr double enough_gain = 0.97;
    const auto best = std::ranges::min_element(seconds);
    if (best == seconds.end() || *best >= enough_gain * seconds.front()) return 0;
    return best - seconds.begin();
}

}  // namespace ringshard::ops
