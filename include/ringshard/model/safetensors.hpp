#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ringshard/base/files.hpp"

namespace ringshard::model {

enum class StoredType { fp32, bf16, fp16 };

struct StoredTensor {
    StoredType type = StoredType::fp32;
    std::vector<int64_t> shape;
    std::span<const std::byte> bytes;
};

// The tensors of a Hugging Face folder: model.safetensors, or shards with an index. Files are
// mapped, so only what is read is touched. Opening checks headers, sizes and offsets.
class StoredModel {
public:
    static Expected<StoredModel> open(const std::filesystem::path& folder);

    const StoredTensor* find(const std::string& name) const;
    const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

private:
    class Mapping;
    std::optional<Failure> add_file(const std::filesystem::path& file);

    std::vector<std::shared_ptr<Mapping>> mappings_;
    std::map<std::string, StoredTensor> tensors_;
};

// Elements [first, first + into.size()) of a tensor as fp32.
void read_elements(const StoredTensor& tensor, int64_t first, std::span<float> into);

// A tensor in the list at the head of a file.
struct TensorEntry {
    std::string name;
    StoredType type;
    std::vector<int64_t> shape;
};

// Writes one safetensors file from front to back: first the list of tensors, then the elements of
// each in that order, in pieces of any length.
class SafetensorsWriter {
public:
    SafetensorsWriter(const std::filesystem::path& file, std::vector<TensorEntry> entries);

    void write(std::span<const float> elements);  // converts to the type of the entry
    std::optional<Failure> close();               // flushes to disk; the file is whole after it

private:
    void put(std::span<const std::byte> bytes);

    std::optional<File> output_;
    std::optional<Failure> failure_;  // the first one
    int64_t end_ = 0;                 // of what was written, in bytes
    std::vector<TensorEntry> entries_;
    size_t entry_ = 0;
    int64_t written_of_entry_ = 0;
};

}  // namespace ringshard::model
