#include "scaled_weights.hpp"

#include "ringshard/base/text.hpp"
#include "safetensors_header.hpp"
#include "stored_type.hpp"

namespace ringshard::model {

namespace {

constexpr std::string_view ending = "_scale_inv";

// Equal blocks of a matrix, one for each scale, row by row.
struct Blocks {
    int64_t rows;  // of a block
    int64_t columns;
    int64_t across;  // blocks beside each other
};

// Nothing where the scales are not those of equal blocks.
std::optional<Blocks> find_blocks(const std::vector<int64_t>& shape,
                                  const std::vector<int64_t>& scales) {
    if (shape.size() != 2) return std::nullopt;
    if (num_elements(scales) == 1) return Blocks{shape[0], shape[1], 1};
    if (scales.size() != 2 || scales[0] < 1 || scales[1] < 1 || shape[0] % scales[0] != 0 ||
        shape[1] % scales[1] != 0)
        return std::nullopt;
    return Blocks{shape[0] / scales[0], shape[1] / scales[1], scales[1]};
}

}  // namespace

const StoredTensor* find_scales(const StoredModel& stored, const std::string& weight) {
    return stored.find(concat(weight, ending));
}

bool is_scale(const std::string& tensor, const std::set<std::string>& weights) {
    constexpr std::string_view of_inputs = "activation_scale";
    if (tensor.ends_with(ending))
        return weights.contains(tensor.substr(0, tensor.size() - ending.size()));
    return tensor.ends_with(of_inputs) &&
           weights.contains(tensor.substr(0, tensor.size() - of_inputs.size()) + "weight");
}

std::optional<Failure> check_scales(const StoredModel& stored, const std::string& weight,
                                    const StoredTensor& tensor) {
    if (tensor.type != StoredType::fp8_e4m3) return std::nullopt;
    const auto refuse = [&](const std::string& what) {
        return Failure{ExitCode::bad_data,
                       format_text("{} is stored in FP8 (F8_E4M3), and {}", weight, what)};
    };
    if (tensor.shape.size() > 2)  // transformers 5.23 reads these without their scales
        return refuse(format_text(
            "it has {} dimensions: FP8 is read in matrices, and in experts of one matrix each",
            tensor.shape.size()));
    const StoredTensor* const scales = find_scales(stored, weight);
    if (scales == nullptr)
        return refuse(
            format_text("its scales, {}{}, are not in the model's files", weight, ending));
    if (scales->type != StoredType::fp32 && scales->type != StoredType::bf16 &&
        scales->type != StoredType::fp16)
        return refuse(format_text("its scales have the dtype {}; F32, BF16 and F16 are read",
                                  to_text(scales->type)));
    if (!find_blocks(tensor.shape, scales->shape))
        return refuse("its scales do not divide it into equal blocks");
    return std::nullopt;
}

std::optional<Failure> multiply_by_scales(const StoredModel& stored, const StoredTensor& tensor,
                                          const StoredTensor& scales, int64_t first,
                                          std::span<float> elements) {
    if (elements.empty()) return std::nullopt;
    const Blocks blocks = find_blocks(tensor.shape, scales.shape).value();
    const int64_t width = tensor.shape[1];
    const int64_t first_row = first / width / blocks.rows;  // of blocks
    const int64_t last_row = (first + std::ssize(elements) - 1) / width / blocks.rows;
    std::vector<float> needed(static_cast<size_t>((last_row - first_row + 1) * blocks.across));
    if (auto failure = stored.read(scales, first_row * blocks.across, needed)) return failure;
    int64_t row = first / width;
    int64_t column = first % width;
    for (float& element : elements) {
        const int64_t block =
            (row / blocks.rows - first_row) * blocks.across + column / blocks.columns;
        element *= needed[static_cast<size_t>(block)];
        if (++column == width) {
            column = 0;
            ++row;
        }
    }
    return std::nullopt;
}

}  // namespace ringshard::model
