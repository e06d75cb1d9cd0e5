#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

// The file of a checkpoint: ordinary HDF5. One process lays it out, or looks into it, through
// HDF5's serial driver; the elements are then written and read past HDF5, at the offsets it gives,
// by any number of processes. HDF5 is not made for threads: one at a time uses these.
namespace ringshard::checkpoint {

enum class ElementType { fp32, bf16 };
constexpr int64_t bytes_of(ElementType type) { return type == ElementType::bf16 ? 2 : 4; }

struct DatasetSpec {
    std::string name;  // "/model/lm_head.weight"
    std::vector<int64_t> shape;
    ElementType type = ElementType::fp32;
};

// Elements of a dataset that lie in another file of its folder, in a dataset of the same name and
// of one dimension.
struct PartElsewhere {
    int64_t first;  // element of the whole
    int64_t count;
    std::string file;
    int64_t first_there;
    int64_t size_there;  // of the dataset there
};

struct StateFile {
    static constexpr int64_t elsewhere = -1;
    struct Placed {
        std::vector<int64_t> shape;
        ElementType type;
        int64_t offset;  // of its first byte in the file; elsewhere: in other files
    };
    std::map<std::string, Placed> datasets;    // by name
    std::map<std::string, int64_t> numbers;    // attributes of the file
    std::map<std::string, std::string> texts;  // under /text
};

// The bytes of a dataset; nothing where its sizes are beyond any file.
std::optional<int64_t> bytes_of(const StateFile::Placed& placed);

// Creates the file with room for all datasets, each contiguous; their elements are not written.
Expected<StateFile> create_state_file(const std::filesystem::path& file,
                                      const std::vector<DatasetSpec>& datasets,
                                      const std::map<std::string, int64_t>& numbers,
                                      const std::map<std::string, std::string>& texts);

// Creates a file through which the parts, by dataset, look like whole tensors.
std::optional<Failure> create_master_file(
    const std::filesystem::path& file, const std::vector<DatasetSpec>& datasets,
    const std::map<std::string, std::vector<PartElsewhere>>& parts,
    const std::map<std::string, int64_t>& numbers, const std::map<std::string, std::string>& texts);

Expected<StateFile> open_state_file(const std::filesystem::path& file);

}  // namespace ringshard::checkpoint
