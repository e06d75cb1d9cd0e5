#pragma once

#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "hdf5_handle.hpp"
#include "ringshard/base/expected.hpp"
#include "ringshard/checkpoint/state_file.hpp"

// HDF5 types and selections of elements.
namespace ringshard::checkpoint::hdf5 {

// Describes bf16 as a 16-bit float, which every reader of HDF5 understands.
TypeId type_of(ElementType type);

// A hyperslab of an array.
struct Box {
    std::vector<hsize_t> start;
    std::vector<hsize_t> size;
};
// Returns boxes, in order, that cover `count` contiguous elements of a row-major array.
std::vector<Box> boxes_of(const std::vector<int64_t>& shape, int64_t first, int64_t count);

SpaceId space_of(const std::vector<int64_t>& shape);

// Returns a dataspace with these elements selected.
struct Elements {
    int64_t first;
    int64_t count;
};
SpaceId choose(const std::vector<int64_t>& shape, const std::vector<Elements>& elements);
SpaceId choose(const std::vector<int64_t>& shape, const Box& box);

// Runs `work`, which returns a value, and turns HDF5 errors, which its handles throw, into a
// failure.
template <class Work>
auto with_failure_as_value(const std::filesystem::path& file, Work work)
    -> Expected<decltype(work())> {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // keeps HDF5 from printing errors
    try {
        return work();
    } catch (const Error& error) {
        return Failure{error.code(), format_text("{}: {}", file.string(), error.what())};
    }
}

}  // namespace ringshard::checkpoint::hdf5
