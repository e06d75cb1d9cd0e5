#include "mxfp4.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "ringshard/base/text.hpp"
#include "safetensors_header.hpp"

namespace ringshard::model {

namespace {

constexpr int64_t block_numbers = 32;
constexpr int64_t block_bytes = 16;
// The values of the codes: a sign, two bits of exponent, one of mantissa.
constexpr std::array<float, 16> numbers{0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                        -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

// One expert as it lies in the files.
struct PackedExpert {
    std::vector<std::byte> blocks;  // [out, in / 2]
    std::vector<float> scales;      // [out, in / 32]
    int64_t in;

    float at(int64_t out, int64_t column) const {
        const int64_t number = out * in + column;
        const auto byte = std::to_integer<unsigned>(blocks[static_cast<size_t>(number / 2)]);
        return numbers[number % 2 == 0 ? byte & 15 : byte >> 4] *
               scales[static_cast<size_t>(number / block_numbers)];
    }
};

std::optional<Failure> read_expert(const StoredModel& stored, const Mxfp4Tensors& packed,
                                   int64_t expert, PackedExpert& into) {
    const auto scales_of_expert = std::ssize(into.scales);
    std::vector<std::byte> exponents(into.scales.size());
    if (auto failure =
            stored.read_bytes(*packed.blocks, expert * std::ssize(into.blocks), into.blocks))
        return failure;
    if (auto failure = stored.read_bytes(*packed.scales, expert * scales_of_expert, exponents))
        return failure;
    for (size_t i = 0; i < exponents.size(); ++i)
        into.scales[i] = std::ldexp(1.0F, std::to_integer<int>(exponents[i]) - 127);
    return std::nullopt;
}

}  // namespace

std::optional<Mxfp4Tensors> find_mxfp4(const StoredModel& stored, const std::string& weight) {
    const StoredTensor* const blocks = stored.find(weight + "_blocks");
    if (blocks == nullptr) return std::nullopt;
    return Mxfp4Tensors{weight, blocks, stored.find(weight + "_scales")};
}

void add_mxfp4_names(const std::string& weight, std::set<std::string>& names) {
    names.insert(weight + "_blocks");
    names.insert(weight + "_scales");
}

std::optional<Failure> check_mxfp4(const Mxfp4Tensors& packed, const shard::TensorSpec& weight) {
    const auto refuse = [&](const std::string& why) {
        return Failure{ExitCode::bad_data, format_text("{} is stored in MXFP4 ({}_blocks), and {}",
                                                       packed.name, packed.name, why)};
    };
    if (weight.shape.size() != 3)
        return refuse("only stacked matrices of experts are read from it");
    if (packed.scales == nullptr)
        return refuse(
            format_text("its scales, {}_scales, are not in the model's files", packed.name));
    if (packed.blocks->type != StoredType::uint8 || packed.scales->type != StoredType::uint8)
        return refuse("blocks and scales must have the dtype U8");
    const int64_t in = weight.shape[1];
    const std::vector<int64_t> scales{weight.shape[0], weight.shape[2], in / block_numbers};
    std::vector<int64_t> blocks = scales;
    blocks.push_back(block_bytes);
    if (in % block_numbers != 0 || packed.blocks->shape != blocks || packed.scales->shape != scales)
        return refuse(
            format_text("config.json asks for blocks of [{}, {}, {} / 32, 16] and a scale for each",
                        weight.shape[0], weight.shape[2], in));
    return std::nullopt;
}

std::optional<Failure> read_mxfp4(const StoredModel& stored, const Mxfp4Tensors& packed,
                                  int64_t first, std::span<float> into, ByteCounter& bytes) {
    const std::vector<int64_t>& sizes = packed.scales->shape;
    const int64_t out = sizes[1];
    const int64_t in = sizes[2] * block_numbers;
    PackedExpert expert{std::vector<std::byte>(static_cast<size_t>(out * in / 2)),
                        std::vector<float>(static_cast<size_t>(out * sizes[2])), in};
    const int64_t end = first + std::ssize(into);
    for (int64_t begin = first; begin < end;) {
        const int64_t number = begin / (in * out);
        const int64_t last = std::min(end, (number + 1) * in * out);
        if (auto failure = read_expert(stored, packed, number, expert)) return failure;
        for (int64_t place = begin; place < last; ++place) {
            const int64_t of_expert = place - number * in * out;
            into[static_cast<size_t>(place - first)] = expert.at(of_expert % out, of_expert / out);
        }
        bytes.add((last - begin) / 2);
        begin = last;
    }
    return std::nullopt;
}

}  // namespace ringshard::model
