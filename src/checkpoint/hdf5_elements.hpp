#pragma once

#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "hdf5_handle.hpp"
#include "ringshard/base/expected.hpp"
#include "ringshard/checkpoint/state_file.hpp"

// Types and places of elements, as HDF5 has them.
namespace ringshard::checkpoint::hdf5 {

// bf16 is a float of 16 bits that every reader of HDF5 understands.
TypeId type_of(ElementType type);

// A box of an array of several dimensions.
struct Box {
    std::vector<hsize_t> start;
    std::vector<hsize_t> size;
};
// `count` neighbouring elements of a row-major array, as boxes in their order.
std::vector<Box> boxes_of(const std::vector<int64_t>& shape, int64_t first, int64_t count);

// A shape in which these elements are chosen.
SpaceId choose(const std::vector<int64_t>& shape, int64_t first, int64_t count);
SpaceId choose(const std::vector<int64_t>& shape, const Box& box);

// A wrapper: what HDF5 says in its own way, and what the handles throw, becomes an expected
// failure. Work returns a value.
template <class Work>
auto with_failure_as_value(const std::filesystem::path& file, Work work)
    -> Expected<decltype(work())> {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // HDF5 prints nothing by itself
    try {
        return work();
    } catch (const Error& error) {
        return Failure{error.code(), concat(file.string(), ": ", error.what())};
    }
}

}  // namespace ringshard::checkpoint::hdf5
