#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

// The file of a checkpoint: ordinary HDF5. One process lays it out, or looks into it, through
// HDF5's serial driver; the elements are then written and read past HDF5, at the offsets it gives,
// by any number of processes. Every dataset is contiguous and holds fp32 elements of one whole
// tensor.
namespace ringshard::checkpoint {

struct DatasetSpec {
    std::string name;  // "/model/lm_head.weight"
    std::vector<int64_t> shape;
};

struct StateFile {
    struct Placed {
        std::vector<int64_t> shape;
        int64_t offset;  // of its first byte in the file
    };
    std::map<std::string, Placed> datasets;    // by name
    std::map<std::string, int64_t> numbers;    // attributes of the file
    std::map<std::string, std::string> texts;  // under /text
};

// Creates the file with room for all datasets; their elements are not written.
Expected<StateFile> create_state_file(const std::filesystem::path& file,
                                      const std::vector<DatasetSpec>& datasets,
                                      const std::map<std::string, int64_t>& numbers,
                                      const std::map<std::string, std::string>& texts);

Expected<StateFile> open_state_file(const std::filesystem::path& file);

}  // namespace ringshard::checkpoint
