#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../config_reader.hpp"
#include "ringshard/base/expected.hpp"
#include "ringshard/model/safetensors.hpp"
#include "ringshard/model/stored_form.hpp"
#include "ringshard/shard/flat_unit.hpp"

// The forms in which files hold quantised matrices. Each has a file that says where the codes and
// scales of a matrix lie, and a Decoder that reads a range of its numbers.
namespace ringshard::model {

// A weight that lies in several tensors: the tensor that stands for it, and those that it replaces.
// Without one the weight is read as it lies, and the others matter for no number.
struct Decoded {
    std::optional<StoredTensor> tensor{};
    std::vector<std::string> parts{};
};

// Sizes of the model's matrices.
using MatrixSizes = std::vector<int64_t>;

struct StoredFormat {
    std::string_view method;  // quant_method in config.json
    bool trains_whole;        // StoredForm's
    // The names of tensors say it, whatever config.json says.
    bool is_told_by_names;
    // Reads fields of quantization_config.
    void (*read_config)(ConfigReader& quantised, const MatrixSizes& sizes, StoredForm& form);
    // Returns where a weight lies, by names and shapes alone; a Decoded without parts where it
    // lies as numbers.
    Expected<Decoded> (*find)(const StoredModel& stored, const shard::TensorSpec& weight,
                              const StoredForm& form);
};

extern const StoredFormat fp8_format;
extern const StoredFormat mxfp4_format;
extern const StoredFormat bitsandbytes_format;
extern const StoredFormat gptq_format;
extern const StoredFormat awq_format;
extern const StoredFormat compressed_tensors_format;
extern const StoredFormat modelopt_format;

// Reads quantization_config; complains about a method that is not served. `may_be_mxfp4`: of models
// whose experts may lie so.
void read_stored_form(ConfigReader& config, const MatrixSizes& sizes, bool may_be_mxfp4,
                      StoredForm& form);

// Makes the tensors that stand for quantised weights. Reads no file.
std::optional<Failure> decode(StoredModel& stored, const StoredForm& form,
                              const std::vector<shard::TensorSpec>& weights);

// The failure of a weight whose tensors do not fit: "NAME is stored in FORMAT, and WHY".
Failure refuse_stored(const std::string& weight, std::string_view format, const std::string& why);

// Returns codes of four bits of a tensor, whose bytes hold two each, from `first` on.
enum class FirstCode { low, high };
Expected<std::vector<uint8_t>> read_codes(const StoredModel& files, const StoredTensor& tensor,
                                          int64_t first, size_t count, FirstCode first_code);

}  // namespace ringshard::model
