#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ringshard/comm/agree.hpp"
#include "ringshard/hub/safetensors.hpp"
#include "ringshard/hub/wrapped_files.hpp"
#include "ringshard/shard/tensor_sums.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::hub {

// The tensors of an adapter, which a folder holds in place of those of the model.
class AdapterTensors {
public:
    virtual ~AdapterTensors() = default;

    struct Tensor {
        std::string name;
        std::vector<int64_t> shape;
    };
    // Returns a tensor of the units as the file has it; nothing where the file does not have it.
    virtual std::optional<Tensor> in_file(const shard::FlatUnit& unit,
                                          const shard::PlacedTensor& tensor) const = 0;
    // Writes elements of a tensor of the units at their places in that of the file.
    virtual std::optional<Failure> write(const std::string& tensor, int64_t first,
                                         std::span<const float> values,
                                         const WriteElements& write) const = 0;

protected:
    AdapterTensors() = default;
    AdapterTensors(const AdapterTensors&) = default;
    AdapterTensors& operator=(const AdapterTensors&) = default;
};

// How weights lie in a Hugging Face folder.
struct ExportForm {
    StoredType type = StoredType::fp32;
    // Bytes of tensors that may share a file. A larger tensor gets a file of its own.
    int64_t max_shard_size = 5'000'000'000;
    // Of a wrapped model: names are as in these files, and their other tensors pass through.
    const WrappedFiles* wrapped = nullptr;
    // Of an adapter; null: the whole model without adapters.
    std::shared_ptr<const AdapterTensors> adapter{};
    std::vector<model::Constant> constants{};  // of the model, written beside its weights

    StoredType type_of(const shard::FlatUnit& unit) const {
        return unit.placement().codec == shard::Codec::fp32 ? StoredType::fp32 : type;
    }
};

// Why the folder may not be written to, if so.
using MayWrite = std::function<std::optional<Failure>()>;

struct WeightFile {
    std::string name;
    std::string header;                      // and the bytes of constants
    std::map<std::string, int64_t> offsets;  // of the first byte of each tensor in the file
    std::map<std::string, int64_t> others;   // the same of tensors that pass through
};
struct WeightFiles {
    std::vector<WeightFile> files;
    std::string index;  // of model.safetensors.index.json; empty if there is one file only
};
inline constexpr const char* index_name = "model.safetensors.index.json";

// The file and the place of each weight: every rank computes the same ones alone. The files are
// those that transformers would make: tensors go to the files in the order of their names,
// numbers in them by value, and lie in a file in the order of their names as they are. Constants
// stand at the beginning of the first file.
WeightFiles plan_weight_files(const std::vector<shard::FlatUnit>& units, const ExportForm& form);

// Bytes of a tensor that passes through, and where they belong.
struct PassedBytes {
    const StoredTensor* tensor;
    int64_t first;  // byte of the tensor
    int64_t count;
    size_t file;     // of WeightFiles::files
    int64_t offset;  // there
};
// Returns the bytes that one rank copies: a part of the bytes of all these tensors on end, so that
// few tensors are a rank's.
std::vector<PassedBytes> passed_bytes(const WeightFiles& planned, const WrappedFiles& wrapped,
                                      int64_t rank, int64_t num_ranks);

// config.json with the type that the weights have; older readers look for it under torch_dtype.
Expected<std::string> config_with_type(const std::string& config_json, StoredType type);

// "float32" or "bfloat16", as config.json and the setting dtype say it; nothing for other types.
std::optional<StoredType> read_export_type(std::string_view name);

// The type that a config.json names as that of its weights; fp32 where it names none, or one that
// is not known.
StoredType type_in_config(const std::string& config_json);
// The type in which a model is written: the setting dtype, or with auto that of its config.json.
StoredType written_type(const std::string& dtype, const std::string& config_json);

// Makes a Hugging Face folder of the weights in the shards. No rank gathers them: each writes its
// own ranges at their places in model.safetensors, or in model-00001-of-00002.safetensors ... with
// an index; the bytes are those that transformers' save_pretrained would write, at any number of
// ranks and at every profile. `files` are what belongs beside the weights, content by name, on rank
// 0; their config.json names the type. The weights get their names last: a folder that has them
// is whole. An older model in the folder is replaced. `may_write` is asked on rank 0, before
// anything is written and before anything is replaced. Frozen weights come from `frozen`, if it is
// given, and else from the shards. Collective over the world.
std::optional<comm::AgreedFailure> export_weights(
    const shard::Zero& zero, const std::filesystem::path& folder,
    std::map<std::string, std::string> files, const ExportForm& form, const comm::Group& world,
    const MayWrite& may_write = [] { return std::optional<Failure>(); },
    const shard::FrozenSource* frozen = nullptr);

}  // namespace ringshard::hub
