#include <algorithm>
#include <bit>

#include "ringshard/model/transformer.hpp"

namespace ringshard::model {

namespace {

// The largest power of two from least to most that takes no more than these bytes.
int64_t fitting(double bytes, double bytes_of_token, int64_t least, int64_t most) {
    const double tokens = std::min(bytes / bytes_of_token, static_cast<double>(most));
    const auto whole = static_cast<uint64_t>(std::max(tokens, static_cast<double>(least)));
    return static_cast<int64_t>(std::bit_floor(whole));
}

// The most tokens whose logits one product makes: those of LibTorch and cuBLAS are not proven from
// 2^31 elements on.
int64_t most_in_product(const ModelSpec& spec) {
    constexpr int64_t largest_product = (int64_t{1} << 31) - 1;
    constexpr int64_t enough = 16384;
    return fitting(static_cast<double>(largest_product), static_cast<double>(spec.head_rows()), 1,
                   enough);
}

// Numbers of a token in the backward pass of an MLP: gate, up, their product or its gradient, and
// rows before and behind.
double numbers_of_mlp(const BlockSpec& block) {
    int64_t inner = 0;
    if (const auto* const experts = block.experts())
        inner = experts->per_token * experts->intermediate;
    else if (block.last)
        inner = block.mlp().intermediate;
    return 3 * static_cast<double>(inner + block.width);
}

}  // namespace

Chunks chunks_of(const ModelSpec& spec, at::ScalarType type, c10::DeviceType device,
                 double memory_bytes) {
    const auto bytes = static_cast<double>(c10::elementSize(type));
    const double bytes_of_logits = bytes * static_cast<double>(spec.head_rows());
    if (device != c10::DeviceType::CUDA) {
        constexpr double logits_on_cpu = 64 << 20;
        return {.head = fitting(logits_on_cpu, bytes_of_logits, 256, 1024)};
    }
    constexpr int64_t rows_of_expert = 512;
    const int64_t most_of_head = most_in_product(spec);
    if (memory_bytes == 0)
        return {.head = std::min<int64_t>(4096, most_of_head),
                .mlp = 8192,
                .rows_of_expert = rows_of_expert};
    constexpr double share_of_head = 1.0 / 32;
    constexpr double share_of_mlp = 1.0 / 64;
    double widest = 1;
    for (const BlockSpec& block : spec.blocks) widest = std::max(widest, numbers_of_mlp(block));
    return {.head = fitting(share_of_head * memory_bytes, bytes_of_logits,
                            std::min<int64_t>(1024, most_of_head), most_of_head),
            .mlp = fitting(share_of_mlp * memory_bytes, bytes * widest, 2048, 65536),
            .rows_of_expert = rows_of_expert};
}

}  // namespace ringshard::model
