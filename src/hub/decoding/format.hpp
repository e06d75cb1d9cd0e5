#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/hub/safetensors.hpp"
#include "ringshard/model/stored_form.hpp"
#include "ringshard/shard/flat_unit.hpp"

// The forms in which files hold quantised matrices. Each has a file that says where the codes and
// scales of a matrix lie, and a Decoder that reads a range of its numbers.
namespace ringshard::hub {

// A weight that lies in several tensors: the tensor that stands for it, and those that it replaces.
// Without one the weight is read as it lies, and the others matter for no number.
struct Decoded {
    std::optional<StoredTensor> tensor{};
    std::vector<std::string> parts{};
};

struct StoredFormat {
    std::string_view method;  // StoredForm's
    // The names of tensors say it, whatever config.json says.
    bool is_told_by_names;
    // Returns where a weight lies, by names and shapes alone; a Decoded without parts where it
    // lies as numbers.
    Expected<Decoded> (*find)(const StoredModel& stored, const shard::TensorSpec& weight,
                              const model::StoredForm& form);
};

extern const StoredFormat fp8_format;
extern const StoredFormat mxfp4_format;
extern const StoredFormat bitsandbytes_format;
extern const StoredFormat gptq_format;
extern const StoredFormat awq_format;
extern const StoredFormat compressed_tensors_format;
extern const StoredFormat modelopt_format;

// Makes the tensors that stand for quantised weights. Reads no file.
std::optional<Failure> decode(StoredModel& stored, const model::StoredForm& form,
                              const std::vector<shard::TensorSpec>& weights);

// The failure of a weight whose tensors do not fit: "NAME is stored in FORMAT, and WHY".
Failure refuse_stored(const std::string& weight, std::string_view format, const std::string& why);

// Returns codes of four bits of a tensor, whose bytes hold two each, from `first` on.
enum class FirstCode { low, high };
Expected<std::vector<uint8_t>> read_codes(const StoredModel& files, const StoredTensor& tensor,
                                          int64_t first, size_t count, FirstCode first_code);

}  // namespace ringshard::hub
