#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

// The file of a checkpoint: ordinary HDF5. One process creates or opens it through HDF5's serial
// driver; then any number of processes read and write the elements without HDF5, at the offsets
// that it assigned. HDF5 is not thread-safe: one thread at a time calls these functions.
namespace ringshard::checkpoint {

enum class ElementType { fp32, bf16, u8 };
constexpr int64_t bytes_of(ElementType type) {
    if (type == ElementType::u8) return 1;
    return type == ElementType::bf16 ? 2 : 4;
}

struct DatasetSpec {
    std::string name;  // "/model/lm_head.weight"
    std::vector<int64_t> shape;
    ElementType type = ElementType::fp32;
};

// Elements of a dataset that lie in another file of its folder, in a one-dimensional dataset of the
// same name.
struct PartElsewhere {
    int64_t first;  // its first element in the whole tensor
    int64_t count;
    std::string file;
    int64_t first_there;
    int64_t size_there;  // elements of the dataset there
};

struct StateFile {
    static constexpr int64_t elsewhere = -1;
    struct Placed {
        std::vector<int64_t> shape;
        ElementType type;
        int64_t offset;  // of its first byte in the file; `elsewhere`: in other files
    };
    std::map<std::string, Placed> datasets;    // by name
    std::map<std::string, int64_t> numbers;    // attributes of the file
    std::map<std::string, std::string> texts;  // under /text
};

// Returns the bytes of a dataset; nothing if its shape exceeds any file.
std::optional<int64_t> bytes_of(const StateFile::Placed& placed);

// Creates the file with space for all datasets, each contiguous, and leaves their elements
// unwritten.
Expected<StateFile> create_state_file(const std::filesystem::path& file,
                                      const std::vector<DatasetSpec>& datasets,
                                      const std::map<std::string, int64_t>& numbers,
                                      const std::map<std::string, std::string>& texts);

// Creates a file of virtual datasets that show the parts, by dataset, as whole tensors.
std::optional<Failure> create_master_file(
    const std::filesystem::path& file, const std::vector<DatasetSpec>& datasets,
    const std::map<std::string, std::vector<PartElsewhere>>& parts,
    const std::map<std::string, int64_t>& numbers, const std::map<std::string, std::string>& texts);

Expected<StateFile> open_state_file(const std::filesystem::path& file);

}  // namespace ringshard::checkpoint
