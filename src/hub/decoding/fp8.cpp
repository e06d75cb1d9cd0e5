#include "../stored_type.hpp"
#include "ringshard/base/shown.hpp"
#include "ringshard/base/text.hpp"
#include "scaled_numbers.hpp"

// quant_method fp8. NAME holds numbers of F8_E4M3, and NAME_scale_inv a scale for each of equal
// blocks of rows and columns, or one for the matrix. A number is multiplied by its scale in fp32,
// as transformers does with dequantize=True.
namespace ringshard::hub {

using nlohmann::json;

namespace {

constexpr std::string_view ending = "_scale_inv";
constexpr std::string_view fp8_name = "FP8 (F8_E4M3)";

std::optional<Failure> check_fp8(const std::string& weight, const StoredTensor& numbers,
                                 const StoredTensor* scales) {
    if (numbers.shape.size() > 2)  // transformers 5.23 reads these without their scales
        return refuse_stored(
            weight, fp8_name,
            format_text(
                "it has {} dimensions: FP8 is read in matrices, and in experts of one matrix each",
                numbers.shape.size()));
    if (scales == nullptr)
        return refuse_stored(
            weight, fp8_name,
            format_text("its scales, {}{}, are not in the model's files", weight, ending));
    if (!can_be_weight(scales->type))
        return refuse_stored(weight, fp8_name,
                             format_text("its scales have the dtype {}; F32, BF16 and F16 are read",
                                         to_text(scales->type)));
    if (!find_blocks(numbers.shape, scales->shape))
        return refuse_stored(weight, fp8_name, "its scales do not divide it into equal blocks");
    return std::nullopt;
}

// Files may hold scales of what a layer reads, which matter only for products in FP8.
Expected<Decoded> find_fp8(const StoredModel& stored, const shard::TensorSpec& weight,
                           const model::StoredForm&) {
    const std::string& name = weight.name;
    const std::string scales_name = concat(name, ending);
    const StoredTensor* const scales = stored.find(scales_name);
    Decoded found;
    if (scales != nullptr) found.parts.push_back(scales_name);
    if (name.ends_with("weight")) {
        const std::string of_inputs = name.substr(0, name.size() - 6) + "activation_scale";
        if (stored.find(of_inputs) != nullptr) found.parts.push_back(of_inputs);
    }
    const StoredTensor* const numbers = stored.find(name);
    if (numbers == nullptr || numbers->type != StoredType::fp8_e4m3) return found;
    if (auto failure = check_fp8(name, *numbers, scales)) return *failure;
    found.parts.push_back(name);
    found.tensor = tensor_of(name, {.shape = numbers->shape, .codes = *numbers, .scales = *scales});
    return found;
}

}  // namespace

const StoredFormat fp8_format{.method = "fp8", .is_told_by_names = true, .find = find_fp8};

}  // namespace ringshard::hub
