#include "ringshard/base/random_values.hpp"

#include <cmath>
#include <numbers>

#include "ringshard/base/mix.hpp"

namespace ringshard {

void fill_uniform(uint64_t key, int64_t first, double bound, std::span<float> into) {
    for (size_t i = 0; i < into.size(); ++i) {
        const uint64_t bits = mix_bits(key, static_cast<uint64_t>(first) + i);
        const double unit = static_cast<double>(bits >> 11) * 0x1p-53;
        into[i] = static_cast<float>((2 * unit - 1) * bound);
    }
}

// Normal, by the method of Box and Muller: an element has two random numbers of its own.
void fill_normal(uint64_t key, int64_t first, double deviation, std::span<float> into) {
    for (size_t i = 0; i < into.size(); ++i) {
        const uint64_t element = static_cast<uint64_t>(first) + i;
        const auto unit = [&](uint64_t number) {  // above 0, up to 1
            return (static_cast<double>(mix_bits(key, 2 * element + number) >> 11) + 1) * 0x1p-53;
        };
        into[i] = static_cast<float>(deviation * std::sqrt(-2 * std::log(unit(0))) *
                                     std::cos(2 * std::numbers::pi * unit(1)));
    }
}

}  // namespace ringshard
