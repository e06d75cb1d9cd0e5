#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ringshard/base/files.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/ops/nf4.hpp"

namespace ringshard::hub {

// The file of an adapter.
inline constexpr const char* adapter_weights_name = "adapter_model.safetensors";

// First the types of weights, then types of tensors that pass through unchanged.
enum class StoredType {
    fp32,
    bf16,
    fp16,
    fp8_e4m3,
    fp64,
    fp8_e5m2,
    fp8_e8m0,
    int64,
    uint64,
    int32,
    uint32,
    int16,
    uint16,
    int8,
    uint8,
    boolean
};

class Decoder;

struct StoredTensor {
    StoredType type = StoredType::fp32;
    std::vector<int64_t> shape;
    size_t file = 0;    // number of the file that holds it
    size_t offset = 0;  // of its first byte there
    size_t length = 0;  // bytes
    // Of a tensor that stands for others, which hold its numbers as codes and scales; `length`
    // counts the bytes of all of them.
    std::shared_ptr<const Decoder> decoder{};
};

// The tensors of a Hugging Face folder: model.safetensors, or shards with an index. Files are
// mapped, so the system loads only pages that are read.
class StoredModel {
public:
    // Checks headers, sizes and offsets.
    static Expected<StoredModel> open(const std::filesystem::path& folder);
    // Rank 0 reads and checks the headers; the others receive the list of tensors, and open a file
    // when they first read from it. Collective over the group.
    static comm::Agreed<StoredModel> open(const std::filesystem::path& folder,
                                          const comm::Group& group);

    // Opens one file instead of a folder. Collective over the group.
    static comm::Agreed<StoredModel> open_file(const std::filesystem::path& file,
                                               const comm::Group& group);

    // Gives tensors other names, and moves those that `name_of` gives none to others().
    using NameOf = std::function<std::optional<std::string>(const std::string& stored)>;
    void rename(const NameOf& name_of);
    // Puts parts of a tensor into its place: ranges of its elements.
    struct Part {
        std::string name;
        std::vector<int64_t> shape;
        int64_t first;  // element of the whole
    };
    void divide(const std::string& name, const std::vector<Part>& parts);
    // Puts a tensor, or none, in the place of others.
    void replace(const std::vector<std::string>& others, const std::string& name,
                 std::optional<StoredTensor> tensor);

    const StoredTensor* find(const std::string& name) const;
    const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
    const std::map<std::string, StoredTensor>& others() const { return others_; }

    // Elements [first, first + into.size()) of a tensor of this model as fp32.
    std::optional<Failure> read(const StoredTensor& tensor, int64_t first,
                                std::span<float> into) const;
    // Bytes of a tensor from `first` on, as they lie in its file.
    std::optional<Failure> read_bytes(const StoredTensor& tensor, int64_t first,
                                      std::span<std::byte> into) const;

private:
    class Mapping;
    struct TensorFile {
        std::filesystem::path name;
        mutable std::shared_ptr<Mapping> mapping;  // null before the first read
    };
    std::optional<Failure> add_file(const std::filesystem::path& file);
    // The `length` bytes from `first` on of a tensor, in the mapped file.
    Expected<std::span<const std::byte>> bytes_of(const StoredTensor& tensor, size_t first,
                                                  size_t length) const;
    static comm::Agreed<StoredModel> share(Expected<StoredModel> of_root, const comm::Group& group);
    std::string to_text() const;
    static StoredModel from_text(const std::string& text);

    std::vector<TensorFile> files_;
    std::map<std::string, StoredTensor> tensors_;
    std::map<std::string, StoredTensor> others_;
};

// Reads the numbers of a quantised matrix from the tensors that hold its codes and scales.
// A matrix in NF4, with the values and blocks of ops/nf4.hpp.
class StoredNf4 {
public:
    virtual ~StoredNf4() = default;
    // Elements [first, first + into.size()), as Decoder::read(), before they are rounded to the
    // type of the files: quantised, they have the codes and scales that the files hold.
    virtual std::optional<Failure> read_exact(const StoredModel& files, int64_t first,
                                              std::span<float> into) const = 0;
    virtual void round(std::span<float> numbers) const = 0;
    // Returns the codes of the scales; nothing if these are fp32, or have other values and blocks.
    virtual Expected<std::optional<ops::NestedScales>> nested_scales(
        const StoredModel& files) const = 0;

protected:
    StoredNf4() = default;
    StoredNf4(const StoredNf4&) = default;
    StoredNf4& operator=(const StoredNf4&) = default;
};

class Decoder {
public:
    virtual ~Decoder() = default;
    // Returns null for codes of another form.
    virtual Expected<const StoredNf4*> nf4(const StoredModel&) const {
        return static_cast<const StoredNf4*>(nullptr);
    }
    // Elements [first, first + into.size()) of the matrix, of `files`, which hold these tensors.
    // Reads no more of them than the rows of the elements need.
    virtual std::optional<Failure> read(const StoredModel& files, int64_t first,
                                        std::span<float> into) const = 0;

protected:
    Decoder() = default;
    Decoder(const Decoder&) = default;
    Decoder& operator=(const Decoder&) = default;
};

// A tensor in the list at the head of a file.
struct TensorEntry {
    std::string name;
    StoredType type;
    std::vector<int64_t> shape;
};

int64_t num_elements(const std::vector<int64_t>& shape);
int64_t num_bytes(const TensorEntry& entry);

// The header of a safetensors file: the length of the list, and the list of tensors, whose elements
// follow one after another in this order.
std::string safetensors_header(const std::vector<TensorEntry>& entries);

// Receives elements of a tensor, from `first` on.
using WriteElements =
    std::function<std::optional<Failure>(int64_t first, std::span<const float> values)>;

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
    int64_t end_ = 0;                 // of the bytes written
    std::vector<TensorEntry> entries_;
    size_t entry_ = 0;
    int64_t written_of_entry_ = 0;
};

}  // namespace ringshard::hub
