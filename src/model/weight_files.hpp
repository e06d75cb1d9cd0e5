#pragma once

#include <map>
#include <string>
#include <vector>

#include "ringshard/model/export_weights.hpp"

// Which weight goes into which file, and where: known to every rank without asking.
namespace ringshard::model {

struct WeightFile {
    std::string name;
    std::string header;
    std::map<std::string, int64_t> offsets;  // of the first byte of each tensor in the file
};

struct WeightFiles {
    std::vector<WeightFile> files;
    std::string index;  // of model.safetensors.index.json; empty if there is one file only
};

// The files that transformers would make: tensors are dealt to files in the order of their names,
// numbers in them by value, and lie in a file in the order of their names as they are.
WeightFiles plan_weight_files(const std::vector<shard::FlatUnit>& units, const ExportForm& form);

}  // namespace ringshard::model
