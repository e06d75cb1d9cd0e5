#include "grouped_codes.hpp"
#include "ringshard/base/text.hpp"

// quant_method awq, version gemm, in four bits. MODULE.qweight [in, out / 8] holds codes of eight
// neighbouring outputs in a word, of outputs 0, 2, 4, 6, 1, 3, 5, 7 from the lowest bits on; qzeros
// [groups, out / 8] likewise; scales [groups, out]. Inputs lie group by group.
namespace ringshard::hub {

namespace {

Expected<Decoded> find_awq(const StoredModel& stored, const shard::TensorSpec& weight,
                           const model::StoredForm& form) {
    return find_grouped_codes(stored, weight, "AWQ",
                              {.bits = form.bits,
                               .group = form.group,
                               .words_hold = WordsHold::outputs,
                               .order = {0, 4, 1, 5, 2, 6, 3, 7}});
}

}  // namespace

const StoredFormat awq_format{.method = "awq", .is_told_by_names = false, .find = find_awq};

}  // namespace ringshard::hub
