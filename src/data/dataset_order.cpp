#include "dataset_order.hpp"

#include <algorithm>

#include "ringshard/text/value.hpp"

namespace ringshard::data {

bool holds_pairs(const ArrayFile& store) {
    const auto about = text::read_json(store.about());
    const text::Value* const field = about ? about.value().find(pairs_field) : nullptr;
    return field != nullptr && *field == text::Value(true);
}

std::vector<bool> copies_of_pairs(const std::vector<bool>& is_copy) {
    std::vector<bool> of_pairs;
    for (size_t sample = 0; sample + 1 < is_copy.size(); sample += 2)
        of_pairs.push_back(is_copy[sample] && is_copy[sample + 1]);
    return of_pairs;
}

std::vector<int64_t> samples_of_pairs(std::span<const int64_t> pairs) {
    constexpr size_t most_at_once = 1000;  // of a call of datasets' map
    std::vector<int64_t> samples;
    samples.reserve(2 * pairs.size());
    while (!pairs.empty()) {
        const auto some = pairs.first(std::min(most_at_once, pairs.size()));
        for (const int64_t side : {0, 1})
            for (const int64_t pair : some) samples.push_back(2 * pair + side);
        pairs = pairs.subspan(some.size());
    }
    return samples;
}

}  // namespace ringshard::data
