#include "hdf5_elements.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

namespace ringshard::checkpoint::hdf5 {

TypeId type_of(ElementType type) {
    if (type == ElementType::u8) return {H5Tcopy(H5T_STD_U8LE), "make a type"};
    TypeId id(H5Tcopy(H5T_IEEE_F32LE), "make a type");
    if (type == ElementType::fp32) return id;
    // The sign is bit 15; the exponent has eight bits from bit 7, the mantissa seven from bit 0.
    // Set the fields before the size: they must fit it at every moment.
    expect(H5Tset_fields(id, 15, 7, 8, 0, 7), "set the fields of a type");
    expect(H5Tset_size(id, 2), "set the size of a type");
    expect(H5Tset_ebias(id, 127), "set the bias of a type");
    return id;
}

namespace {

int64_t product(std::span<const int64_t> sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// `shape`: the array's dimensions after the indices in `start`.
void add_boxes(std::span<const int64_t> shape, std::vector<hsize_t> start, int64_t first,
               int64_t count, std::vector<Box>& boxes) {
    if (count == 0) return;
    const int64_t row = product(shape.subspan(1));
    const auto inside_row = [&](int64_t index, int64_t from, int64_t size) {
        auto longer = start;
        longer.push_back(static_cast<hsize_t>(index));
        add_boxes(shape.subspan(1), std::move(longer), from, size, boxes);
    };
    if (const int64_t skipped = first % row; skipped > 0) {  // finish a row
        const int64_t size = std::min(row - skipped, count);
        inside_row(first / row, skipped, size);
        first += size;
        count -= size;
    }
    if (const int64_t rows = count / row; rows > 0) {
        Box box{start, std::vector<hsize_t>(start.size(), 1)};
        box.start.push_back(static_cast<hsize_t>(first / row));
        box.start.resize(start.size() + shape.size(), 0);
        box.size.push_back(static_cast<hsize_t>(rows));
        box.size.insert(box.size.end(), shape.begin() + 1, shape.end());
        boxes.push_back(std::move(box));
        first += rows * row;
        count -= rows * row;
    }
    if (count > 0) inside_row(first / row, 0, count);  // begin a row
}

}  // namespace

SpaceId space_of(const std::vector<int64_t>& shape) {
    const std::vector<hsize_t> sizes(shape.begin(), shape.end());
    return {H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
            "make a shape"};
}

std::vector<Box> boxes_of(const std::vector<int64_t>& shape, int64_t first, int64_t count) {
    std::vector<Box> boxes;
    add_boxes(shape, {}, first, count, boxes);
    return boxes;
}

SpaceId choose(const std::vector<int64_t>& shape, const std::vector<Elements>& elements) {
    SpaceId space = space_of(shape);
    expect(H5Sselect_none(space), "choose nothing");
    for (const auto& [first, count] : elements)
        for (const Box& box : boxes_of(shape, first, count))
            expect(H5Sselect_hyperslab(space, H5S_SELECT_OR, box.start.data(), nullptr,
                                       box.size.data(), nullptr),
                   "choose elements");
    return space;
}

SpaceId choose(const std::vector<int64_t>& shape, const Box& box) {
    SpaceId space = space_of(shape);
    expect(H5Sselect_hyperslab(space, H5S_SELECT_SET, box.start.data(), nullptr, box.size.data(),
                               nullptr),
           "choose elements");
    return space;
}

}  // namespace ringshard::checkpoint::hdf5
