#include <algorithm>
#include <array>
#include <cmath>

#include "e2m1.hpp"
#include "format.hpp"
#include "ringshard/base/text.hpp"

// quant_method mxfp4, of GPT-OSS. Of a weight [experts, in, out], NAME_blocks [experts, out,
// in / 32, 16] has two numbers of four bits in a byte, the lower half first; NAME_scales [experts,
// out, in / 32] has the exponents, plus 127, of the powers of two that multiply 32 numbers each.
// The numbers are those of transformers' dequantize=True. A rank reads whole experts, one at a
// time, since the weight lies across the codes.
namespace ringshard::hub {

namespace {

constexpr std::string_view mxfp4_name = "MXFP4";
constexpr int64_t block_numbers = 32;
constexpr int64_t block_bytes = 16;

// One expert as it lies in the files.
struct PackedExpert {
    std::vector<std::byte> blocks;  // [out, in / 2]
    std::vector<float> scales;      // [out, in / 32]
    int64_t in;

    float at(int64_t out, int64_t column) const {
        const int64_t number = out * in + column;
        const auto byte = std::to_integer<unsigned>(blocks[static_cast<size_t>(number / 2)]);
        return e2m1_numbers[number % 2 == 0 ? byte & 15 : byte >> 4] *
               scales[static_cast<size_t>(number / block_numbers)];
    }
};

class Mxfp4Decoder final : public Decoder {
public:
    Mxfp4Decoder(StoredTensor blocks, StoredTensor scales)
        : blocks_(std::move(blocks)), scales_(std::move(scales)) {}

    std::optional<Failure> read(const StoredModel& files, int64_t first,
                                std::span<float> into) const override {
        const std::vector<int64_t>& sizes = scales_.shape;
        const int64_t out = sizes[1];
        const int64_t in = sizes[2] * block_numbers;
        PackedExpert expert{std::vector<std::byte>(static_cast<size_t>(out * in / 2)),
                            std::vector<float>(static_cast<size_t>(out * sizes[2])), in};
        const int64_t end = first + std::ssize(into);
        for (int64_t begin = first; begin < end;) {
            const int64_t number = begin / (in * out);
            const int64_t last = std::min(end, (number + 1) * in * out);
            if (auto failure = read_expert(files, number, expert)) return failure;
            for (int64_t place = begin; place < last; ++place) {
                const int64_t of_expert = place - number * in * out;
                into[static_cast<size_t>(place - first)] =
                    expert.at(of_expert % out, of_expert / out);
            }
            begin = last;
        }
        return std::nullopt;
    }

private:
    std::optional<Failure> read_expert(const StoredModel& files, int64_t expert,
                                       PackedExpert& into) const {
        std::vector<std::byte> exponents(into.scales.size());
        if (auto failure = files.read_bytes(blocks_, expert * std::ssize(into.blocks), into.blocks))
            return failure;
        if (auto failure = files.read_bytes(scales_, expert * std::ssize(into.scales), exponents))
            return failure;
        for (size_t i = 0; i < exponents.size(); ++i)
            into.scales[i] = std::ldexp(1.0F, std::to_integer<int>(exponents[i]) - 127);
        return std::nullopt;
    }

    StoredTensor blocks_;
    StoredTensor scales_;
};

std::optional<Failure> check_mxfp4(const shard::TensorSpec& weight, const StoredTensor& blocks,
                                   const StoredTensor* scales) {
    const auto refuse = [&](const std::string& why) {
        return refuse_stored(weight.name, format_text("{} ({}_blocks)", mxfp4_name, weight.name),
                             why);
    };
    if (weight.shape.size() != 3)
        return refuse("only stacked matrices of experts are read from it");
    if (scales == nullptr)
        return refuse(
            format_text("its scales, {}_scales, are not in the model's files", weight.name));
    if (blocks.type != StoredType::uint8 || scales->type != StoredType::uint8)
        return refuse("blocks and scales must have the dtype U8");
    const int64_t in = weight.shape[1];
    const std::vector<int64_t> of_scales{weight.shape[0], weight.shape[2], in / block_numbers};
    std::vector<int64_t> of_blocks = of_scales;
    of_blocks.push_back(block_bytes);
    if (in % block_numbers != 0 || blocks.shape != of_blocks || scales->shape != of_scales)
        return refuse(
            format_text("config.json asks for blocks of [{}, {}, {} / 32, 16] and a scale for each",
                        weight.shape[0], weight.shape[2], in));
    return std::nullopt;
}

Expected<Decoded> find_mxfp4(const StoredModel& stored, const shard::TensorSpec& weight,
                             const model::StoredForm&) {
    const std::string blocks_name = weight.name + "_blocks";
    const std::string scales_name = weight.name + "_scales";
    const StoredTensor* const blocks = stored.find(blocks_name);
    if (blocks == nullptr) return Decoded{};
    const StoredTensor* const scales = stored.find(scales_name);
    if (auto failure = check_mxfp4(weight, *blocks, scales)) return *failure;
    return Decoded{StoredTensor{.shape = weight.shape,
                                .decoder = std::make_shared<Mxfp4Decoder>(*blocks, *scales)},
                   {blocks_name, scales_name}};
}

}  // namespace

const StoredFormat mxfp4_format{.method = "mxfp4", .is_told_by_names = true, .find = find_mxfp4};

}  // namespace ringshard::hub
