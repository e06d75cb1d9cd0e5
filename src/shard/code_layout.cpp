#include "ringshard/shard/code_layout.hpp"

#include <algorithm>
#include <cstring>

#include "ringshard/ops/int8.hpp"

namespace ringshard::shard {

namespace {

constexpr int64_t section_alignment = 64;  // bytes
constexpr auto float_bytes = static_cast<int64_t>(sizeof(float));

int64_t parts_of(int64_t size, int64_t part) { return (size + part - 1) / part; }

int64_t aligned(int64_t bytes, int64_t alignment) { return parts_of(bytes, alignment) * alignment; }

at::Tensor floats(const at::Tensor& bytes, int64_t begin, int64_t count) {
    return bytes.narrow(0, begin, count * float_bytes).view(at::kFloat);
}

}  // namespace

// Matrices begin at multiples of the bytes of a block, so that packs of codes are aligned.
CodeLayout::CodeLayout(Codec codec, const std::vector<MatrixSize>& sizes) : codec_(codec) {
    int64_t num_nested = 0;
    for (const auto& [weights, width] : sizes) {
        const int64_t scales = parts_of(weights, group(width));
        const int64_t bytes = code_bytes_of(weights);
        matrices_.push_back({code_bytes_, bytes, num_scales_, scales, num_nested,
                             codec == Codec::int8 ? width : ops::nf4_block_bytes});
        code_bytes_ += aligned(bytes, ops::nf4_block_bytes);
        num_scales_ += scales;
        num_nested += parts_of(scales, ops::nf4_nested_block);
    }
    if (codec != Codec::nested_nf4) {
        bytes_ = code_bytes_ + num_scales_ * float_bytes;
        return;
    }
    nested_begin_ = aligned(code_bytes_ + num_scales_, section_alignment);
    means_begin_ = nested_begin_ + num_nested * float_bytes;
    bytes_ = means_begin_ + std::ssize(sizes) * float_bytes;
}

int64_t CodeLayout::code_bytes_of(int64_t weights) const {
    return codec_ == Codec::int8 ? weights
                                 : parts_of(weights, ops::nf4_block) * ops::nf4_block_bytes;
}

int64_t CodeLayout::first_scale_from(int64_t byte) const {
    const auto behind = std::ranges::upper_bound(matrices_, byte, {}, &Matrix::first_byte);
    if (behind == matrices_.begin()) return 0;
    const Matrix& matrix = *std::prev(behind);
    return matrix.first_scale +
           std::min(matrix.num_scales, parts_of(byte - matrix.first_byte, matrix.group_bytes));
}

bool CodeLayout::quantize(std::span<const float> weights, int64_t width, std::span<uint8_t> codes,
                          std::span<float> scales) const {
    if (codec_ == Codec::int8) return ops::quantize_int8(weights, width, codes, scales);
    ops::quantize_nf4(weights, codes, scales);
    return true;
}

void CodeLayout::dequantize(const at::Tensor& into, const at::Tensor& flat, size_t matrix) const {
    if (codec_ != Codec::int8) return ops::dequantize_nf4(into, in_four_bits(flat, matrix));
    const Matrix& place = matrices_[matrix];
    ops::dequantize_int8(
        into, {flat.narrow(0, place.first_byte, place.bytes),
               floats(flat, code_bytes_ + place.first_scale * float_bytes, place.num_scales)});
}

ops::Nf4Matrix CodeLayout::in_four_bits(const at::Tensor& flat, size_t matrix) const {
    const Matrix& place = matrices_[matrix];
    const int64_t first = place.first_scale;
    const int64_t count = place.num_scales;
    ops::Nf4Matrix found{flat.narrow(0, place.first_byte, place.bytes), {}, {}, {}};
    if (codec_ == Codec::nf4) {
        found.scales = floats(flat, code_bytes_ + first * float_bytes, count);
        return found;
    }
    found.scales = flat.narrow(0, code_bytes_ + first, count);
    found.nested_scales = floats(flat, nested_begin_ + place.first_nested * float_bytes,
                                 parts_of(count, ops::nf4_nested_block));
    found.mean = floats(flat, means_begin_ + static_cast<int64_t>(matrix) * float_bytes, 1);
    return found;
}

std::vector<uint8_t> CodeLayout::scale_bytes(std::span<const float> scales,
                                             const NestedByMatrix& known) const {
    std::vector<uint8_t> bytes(static_cast<size_t>(bytes_ - code_bytes_));
    const auto put = [&](int64_t begin, const void* from, size_t count) {
        std::memcpy(bytes.data() + (begin - code_bytes_), from, count);
    };
    if (codec_ != Codec::nested_nf4) {
        put(code_bytes_, scales.data(), scales.size_bytes());
        return bytes;
    }
    for (size_t number = 0; number < matrices_.size(); ++number) {
        const Matrix& place = matrices_[number];
        const auto found = known.find(number);
        const ops::NestedScales nested =
            found != known.end()
                ? found->second
                : ops::quantize_scales(scales.subspan(static_cast<size_t>(place.first_scale),
                                                      static_cast<size_t>(place.num_scales)));
        put(code_bytes_ + place.first_scale, nested.codes.data(), nested.codes.size());
        put(nested_begin_ + place.first_nested * float_bytes, nested.scales.data(),
            nested.scales.size() * sizeof(float));
        put(means_begin_ + static_cast<int64_t>(number) * float_bytes, &nested.mean, sizeof(float));
    }
    return bytes;
}

}  // namespace ringshard::shard
