#pragma once

#include <cstdint>
#include <span>

// Random numbers that are a function of a key and of their place: the same in every layout.
namespace ringshard {

// Uniform within [-bound, bound). `first`: the place of into[0].
void fill_uniform(uint64_t key, int64_t first, double bound, std::span<float> into);
void fill_normal(uint64_t key, int64_t first, double deviation, std::span<float> into);

}  // namespace ringshard
