#include "table.hpp"

#include <algorithm>
#include <map>

namespace ringshard::text::unicode {

#include "data.inc"

std::span<const ClassRange> combining_ranges() { return combining; }
std::span<const char32_t> not_composed_points() { return not_composed; }

std::vector<uint8_t> read_categories() {
    std::vector<uint8_t> values;
    values.reserve(num_points);
    for (const uint32_t run : categories)
        values.insert(values.end(), run / 32, static_cast<uint8_t>(run % 32));
    return values;
}

std::vector<uint8_t> read_python_categories() {
    std::vector<uint8_t> values = read_categories();
    std::span<const uint32_t> changes = python_categories;
    for (uint8_t category = 0; category < category_names.size(); ++category) {
        const size_t size = changes.front();
        for_each_range(changes.subspan(1, size), [&](char32_t first, char32_t end) {
            std::fill(values.begin() + static_cast<std::ptrdiff_t>(first),
                      values.begin() + static_cast<std::ptrdiff_t>(end), category);
        });
        changes = changes.subspan(1 + size);
    }
    return values;
}

namespace {

// Returns the last item that begins at or before the point; nullptr if there is none.
template <class Item>
const Item* last_before(std::span<const Item> items, char32_t point) {
    const auto behind = std::ranges::upper_bound(items, point, {}, &Item::first);
    return behind == items.begin() ? nullptr : &*std::prev(behind);
}

}  // namespace

std::span<const char32_t> Mapping::find(char32_t point, char32_t& single) const {
    const Stretch* const stretch = last_before(stretches, point);
    if (stretch != nullptr && point <= stretch->last &&
        (point - stretch->first) % stretch->step == 0) {
        single = point + static_cast<char32_t>(stretch->difference);
        return {&single, 1};
    }
    const Block* const block = last_before(blocks, point);
    if (block != nullptr && point - block->first < block->count)
        return {text + block->text + (point - block->first) * block->length, block->length};
    if (base != nullptr) return base->find(point, single);
    return {};
}

std::vector<char32_t> Mapping::points() const {
    std::vector<char32_t> all;
    for (const Stretch& stretch : stretches)
        for (char32_t point = stretch.first; point <= stretch.last; point += stretch.step)
            all.push_back(point);
    for (const Block& block : blocks)
        for (char32_t i = 0; i < block.count; ++i) all.push_back(block.first + i);
    return all;
}

template <class Value>
PointTable<Value>::PointTable(const std::vector<Value>& values) {
    std::map<std::vector<Value>, uint16_t> known;
    for (size_t block = 0; block < block_of_.size(); ++block) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(block << 8);
        const auto [place, is_new] =
            known.emplace(std::vector<Value>(begin, begin + 256), uint16_t(known.size()));
        if (is_new) blocks_.insert(blocks_.end(), begin, begin + 256);
        block_of_[block] = place->second;
    }
}
template class PointTable<uint8_t>;
template class PointTable<uint16_t>;

}  // namespace ringshard::text::unicode
