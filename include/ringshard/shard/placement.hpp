#pragma once

#include <cstddef>
#include <cstdint>

namespace ringshard::shard {

// The numbers in which weights rest and travel: of the compute type; fp32, whatever that type is;
// four bits, with scales in fp32 or in 8 bits (nested); or eight bits, with a scale for each row.
enum class Codec { compute, fp32, nf4, nested_nf4, int8 };

// What a weight is to the ranks. Weights of equal placement lie side by side in the units of their
// modules, and in the same stores (Zero's shelves).
struct Placement {
    // Elements: 64 bytes of bf16.
    static constexpr int64_t least_grain = 32;

    // Trained weights have gradients and states of an optimizer, and fp32 numbers beside those of
    // another codec. Frozen weights have the numbers of their codec alone.
    bool is_trained = true;
    Codec codec = Codec::compute;
    // Each section belongs to one rank of those that share the unit: they alone gather it. The
    // ranks of equal sections divide it.
    int64_t num_sections = 1;
    size_t updater = 0;  // of trained weights: the number of the optimizer that updates them
    // Of trained weights: masters lie beside the compute weights even where both are fp32, since
    // the optimizer takes gradients at other points than the weights that it makes.
    bool keeps_masters = false;
    // Tensors begin at multiples of it, and so do the parts of ranks.
    int64_t grain = least_grain;

    // Whether it holds bytes: codes and scales, in the places that CodeLayout gives them.
    bool is_coded() const { return codec != Codec::compute && codec != Codec::fp32; }
    bool operator==(const Placement&) const = default;
};

}  // namespace ringshard::shard
