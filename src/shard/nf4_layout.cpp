#include "ringshard/shard/nf4_layout.hpp"

#include <cstring>

namespace ringshard::shard {

namespace {

constexpr int64_t section_alignment = 64;  // bytes
constexpr auto float_bytes = static_cast<int64_t>(sizeof(float));

int64_t parts_of(int64_t size, int64_t part) { return (size + part - 1) / part; }

int64_t aligned(int64_t bytes) { return parts_of(bytes, section_alignment) * section_alignment; }

at::Tensor floats(const at::Tensor& bytes, int64_t begin, int64_t count) {
    return bytes.narrow(0, begin, count * float_bytes).view(at::kFloat);
}

}  // namespace

Nf4Layout::Nf4Layout(Scales scales, const std::vector<int64_t>& sizes) : scales_(scales) {
    int64_t num_nested = 0;
    for (const int64_t size : sizes) {
        const int64_t blocks = parts_of(size, ops::nf4_block);
        matrices_.push_back({num_blocks_, blocks, num_nested});
        num_blocks_ += blocks;
        num_nested += parts_of(blocks, ops::nf4_nested_block);
    }
    const int64_t scales_begin = code_bytes();
    if (scales == Scales::plain) {
        bytes_ = scales_begin + num_blocks_ * float_bytes;
        return;
    }
    nested_begin_ = aligned(scales_begin + num_blocks_);
    means_begin_ = nested_begin_ + num_nested * float_bytes;
    bytes_ = means_begin_ + std::ssize(sizes) * float_bytes;
}

ops::Nf4Matrix Nf4Layout::matrix(const at::Tensor& flat, size_t matrix) const {
    const auto& [first, count, first_nested] = matrices_[matrix];
    ops::Nf4Matrix found{
        flat.narrow(0, first * ops::nf4_block_bytes, count * ops::nf4_block_bytes), {}, {}, {}};
    if (scales_ == Scales::plain) {
        found.scales = floats(flat, code_bytes() + first * float_bytes, count);
        return found;
    }
    found.scales = flat.narrow(0, code_bytes() + first, count);
    found.nested_scales = floats(flat, nested_begin_ + first_nested * float_bytes,
                                 parts_of(count, ops::nf4_nested_block));
    found.mean = floats(flat, means_begin_ + static_cast<int64_t>(matrix) * float_bytes, 1);
    return found;
}

std::vector<uint8_t> Nf4Layout::scale_bytes(std::span<const float> scales) const {
    std::vector<uint8_t> bytes(static_cast<size_t>(bytes_ - code_bytes()));
    const auto put = [&](int64_t begin, const void* from, size_t count) {
        std::memcpy(bytes.data() + (begin - code_bytes()), from, count);
    };
    if (scales_ == Scales::plain) {
        put(code_bytes(), scales.data(), scales.size_bytes());
        return bytes;
    }
    for (size_t number = 0; number < matrices_.size(); ++number) {
        const auto& [first, count, first_nested] = matrices_[number];
        const ops::NestedScales nested = ops::quantize_scales(
            scales.subspan(static_cast<size_t>(first), static_cast<size_t>(count)));
        put(code_bytes() + first, nested.codes.data(), nested.codes.size());
        put(nested_begin_ + first_nested * float_bytes, nested.scales.data(),
            nested.scales.size() * sizeof(float));
        put(means_begin_ + static_cast<int64_t>(number) * float_bytes, &nested.mean, sizeof(float));
    }
    return bytes;
}

}  // namespace ringshard::shard
