#pragma once

#include <array>

#include "format.hpp"

// Matrices as GPTQ and AWQ pack them: codes input by input, in words of 32 bits, and for each group
// of inputs a scale and a code of zero of each output. The weight of an output and an input is
// scale * (code - zero): exact in fp32, since scales have the 11 bits of F16.
namespace ringshard::hub {

// Along which side of a matrix words hold neighbours.
enum class WordsHold { inputs, outputs };

struct GroupedCodes {
    StoredTensor codes{};                    // [in, out], one side in words
    StoredTensor zeros{};                    // [groups, out in words]
    StoredTensor scales{};                   // [groups, out]
    std::optional<StoredTensor> group_of{};  // [in]; else inputs lie group by group
    int64_t in = 0;
    int64_t out = 0;
    int64_t bits = 0;
    int64_t group = 0;  // inputs that share a scale; 0: all
    WordsHold words_hold = WordsHold::inputs;
    // The places in a word, from the lowest bits on, of neighbouring outputs.
    std::array<int64_t, 8> order{0, 1, 2, 3, 4, 5, 6, 7};
    bool adds_one_to_zeros = false;
    // The shapes of a module's tensors say its bits, 4 or 8, and its group.
    bool is_told_by_shapes = false;
};

// Finds the tensors MODULE.qweight, .qzeros, .scales and .g_idx of a weight MODULE.weight; nothing
// where it lies as numbers. `codes` has the form, and gets tensors and sizes.
Expected<Decoded> find_grouped_codes(const StoredModel& stored, const shard::TensorSpec& weight,
                                     std::string_view format, GroupedCodes codes);

}  // namespace ringshard::hub
