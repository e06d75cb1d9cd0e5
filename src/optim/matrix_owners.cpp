#include "matrix_owners.hpp"

#include <algorithm>
#include <numeric>

namespace ringshard::optim {

double orthogonalization_work(int64_t rows, int64_t columns, int64_t steps) {
    const auto least = static_cast<double>(std::min(rows, columns));
    const auto most = static_cast<double>(std::max(rows, columns));
    return static_cast<double>(steps) * 2 * (2 * least * least * most + least * least * least);
}

std::vector<std::vector<size_t>> distribute_matrices(const std::vector<double>& works, int ranks) {
    std::vector<size_t> order(works.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater<>(), [&](size_t matrix) { return works[matrix]; });
    std::vector<std::vector<size_t>> of_ranks(static_cast<size_t>(ranks));
    std::vector<double> loads(of_ranks.size());
    for (const size_t matrix : order) {
        const auto rank = static_cast<size_t>(std::ranges::min_element(loads) - loads.begin());
        loads[rank] += works[matrix];
        of_ranks[rank].push_back(matrix);
    }
    return of_ranks;
}

}  // namespace ringshard::optim
