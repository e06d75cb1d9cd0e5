#include "grouped_codes.hpp"
#include "ringshard/base/text.hpp"

// quant_method gptq, in 4 or 8 bits. MODULE.qweight [in * bits / 32, out] holds codes of
// neighbouring inputs in a word, the first in the lowest bits; qzeros [groups, out * bits / 32]
// those of neighbouring outputs; scales [groups, out]; g_idx [in] the group of each input, which
// with desc_act is any. checkpoint_format gptq (version 1) stores zeros less 1, gptq_v2 as they
// are. Under a rule of `dynamic`, or of AutoRound's extra_config, a module has other bits and
// another group.
namespace ringshard::hub {

namespace {

Expected<Decoded> find_gptq(const StoredModel& stored, const shard::TensorSpec& weight,
                            const model::StoredForm& form) {
    return find_grouped_codes(stored, weight, "GPTQ",
                              {.bits = form.bits,
                               .group = form.group,
                               .words_hold = WordsHold::inputs,
                               .adds_one_to_zeros = form.adds_one_to_zeros,
                               .is_told_by_shapes = form.differs_by_module});
}

}  // namespace

const StoredFormat gptq_format{.method = "gptq", .is_told_by_names = false, .find = find_gptq};

}  // namespace ringshard::hub
