#include <algorithm>
#include <array>

#include "../stored_type.hpp"
#include "nvfp4.hpp"
#include "ringshard/base/shown.hpp"
#include "ringshard/base/text.hpp"
#include "scaled_numbers.hpp"

// quant_method compressed-tensors, of LLM Compressor. MODULE.weight_scale has the scales of a
// matrix, of equal blocks, groups of inputs, rows or all of it. Numbers of F8_E4M3 and I8 lie in
// MODULE.weight; codes of 4 and 8 bits in words, MODULE.weight_packed, with zeros in
// MODULE.weight_zero_point and the groups of inputs in MODULE.weight_g_idx where there are any. The
// numbers are rounded to the type of the scales, as compressed-tensors decompresses them. What
// layers read, `input_activations`, is not quantised in training.
namespace ringshard::hub {

using nlohmann::json;

namespace {

constexpr std::string_view compressed_name = "compressed-tensors";

// Returns the bits of codes in words, of rows that begin with a word of their own.
std::optional<int64_t> bits_of_codes(int64_t inputs, int64_t words) {
    for (const int64_t bits : {4, 8})
        if (const int64_t per_word = 32 / bits; words == (inputs + per_word - 1) / per_word)
            return bits;
    return std::nullopt;
}

// The tensors of a matrix, beside its codes.
struct Parts {
    const StoredTensor* scales;
    const StoredTensor* zeros;     // or nullptr
    const StoredTensor* group_of;  // or nullptr
};

bool has_form(const StoredTensor& tensor, StoredType type, const std::vector<int64_t>& shape) {
    return tensor.type == type && tensor.shape == shape;
}

// Returns why the tensors are not those of a matrix; nothing where they are.
std::string reason_not_to_fit(const std::vector<int64_t>& shape, const StoredTensor& codes,
                              std::optional<int64_t> bits, const Parts& parts) {
    if (parts.scales == nullptr || !can_be_weight(parts.scales->type))
        return "weight_scale is not in the model's files, as F32, BF16 or F16";
    if (shape.size() != 2) return "only matrices are read from it";
    const auto blocks = find_blocks(shape, parts.scales->shape);
    if (!blocks) return "weight_scale does not divide it into equal blocks";
    const bool is_packed = codes.type == StoredType::int32;
    if (is_packed ? !bits || codes.shape[0] != shape[0] : codes.shape != shape)
        return "its codes, of 4 or 8 bits, have not the shape that config.json asks for";
    if (parts.zeros != nullptr) {
        if (!is_packed) return "weight_zero_point is read beside weight_packed alone";
        const int64_t per_word = 32 / *bits;
        if (blocks->rows != 1 || !has_form(*parts.zeros, StoredType::int32,
                                           {(shape[0] + per_word - 1) / per_word, blocks->across}))
            return "weight_zero_point has not a code for each row and group";
    }
    if (parts.group_of != nullptr &&
        (blocks->rows != 1 || !has_form(*parts.group_of, StoredType::int32, {shape[1]})))
        return "weight_g_idx has not the number of a group for each input";
    return {};
}

// Scales of what a layer reads, and of keys and values, matter for no weight.
std::vector<std::string> parts_without_numbers(const StoredModel& stored,
                                               const std::string& module) {
    std::vector<std::string> found;
    for (const char* const name : {"input_scale", "input_zero_point", "output_scale",
                                   "output_zero_point", "k_scale", "v_scale", "weight_shape"})
        if (stored.find(module + name) != nullptr) found.push_back(module + name);
    return found;
}

Expected<Decoded> find_scaled(const StoredModel& stored, const shard::TensorSpec& weight,
                              const std::string& module, const std::string& codes_name) {
    const StoredTensor& codes = *stored.find(codes_name);
    const Parts parts{stored.find(module + "weight_scale"),
                      stored.find(module + "weight_zero_point"),
                      stored.find(module + "weight_g_idx")};
    const bool is_packed = codes.type == StoredType::int32 && codes.shape.size() == 2;
    const auto bits = is_packed ? bits_of_codes(weight.shape.back(), codes.shape[1]) : std::nullopt;
    if (const std::string why = reason_not_to_fit(weight.shape, codes, bits, parts); !why.empty())
        return refuse_stored(weight.name, compressed_name, why);
    Decoded found{{}, parts_without_numbers(stored, module)};
    found.parts.insert(found.parts.end(), {codes_name, module + "weight_scale"});
    ScaledNumbers numbers{.shape = weight.shape,
                          .codes = codes,
                          .bits = bits.value_or(0),
                          .scales = *parts.scales,
                          .rounds_to = parts.scales->type};
    if (parts.zeros != nullptr) {
        numbers.zeros = *parts.zeros;
        found.parts.push_back(module + "weight_zero_point");
    }
    if (parts.group_of != nullptr) {
        numbers.group_of = *parts.group_of;
        found.parts.push_back(module + "weight_g_idx");
    }
    found.tensor = tensor_of(weight.name, std::move(numbers));
    return found;
}

Expected<Decoded> find_compressed(const StoredModel& stored, const shard::TensorSpec& weight,
                                  const model::StoredForm&) {
    constexpr std::string_view ending = "weight";
    if (!weight.name.ends_with(ending)) return Decoded{};
    const std::string module = weight.name.substr(0, weight.name.size() - ending.size());
    const std::string packed_name = module + "weight_packed";
    const StoredTensor* const packed = stored.find(packed_name);
    if (packed != nullptr && packed->type == StoredType::uint8)
        return find_nvfp4(stored, weight,
                          {"weight_packed", "weight_global_scale", GlobalScale::divides});
    if (packed != nullptr && packed->type == StoredType::int32)
        return find_scaled(stored, weight, module, packed_name);
    const StoredTensor* const numbers = stored.find(weight.name);
    if (numbers != nullptr &&
        (numbers->type == StoredType::int8 || numbers->type == StoredType::fp8_e4m3))
        return find_scaled(stored, weight, module, weight.name);
    return Decoded{{}, parts_without_numbers(stored, module)};
}

}  // namespace

const StoredFormat compressed_tensors_format{
    .method = "compressed-tensors", .is_told_by_names = false, .find = find_compressed};

}  // namespace ringshard::hub
