#include "watchers.hpp"

#include <algorithm>

namespace ringshard::watch {

std::vector<size_t> choose_watchers(const std::vector<std::string>& hosts) {
    constexpr size_t most = 3;
    std::vector<size_t> chosen;
    const auto take = [&](auto is_wanted) {
        for (size_t rank = 0; rank < hosts.size() && chosen.size() < most; ++rank)
            if (std::ranges::find(chosen, rank) == chosen.end() && is_wanted(rank))
                chosen.push_back(rank);
    };
    take([&](size_t rank) {
        return std::ranges::none_of(chosen, [&](size_t w) { return hosts[w] == hosts[rank]; });
    });
    take([](size_t) { return true; });
    return chosen;
}

}  // namespace ringshard::watch
