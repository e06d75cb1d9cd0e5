#include "grouped_codes.hpp"
#include "ringshard/base/text.hpp"

// quant_method awq, version gemm, in four bits. MODULE.qweight [in, out / 8] holds codes of eight
// neighbouring outputs in a word, of outputs 0, 2, 4, 6, 1, 3, 5, 7 from the lowest bits on; qzeros
// [groups, out / 8] likewise; scales [groups, out]. Inputs lie group by group.
namespace ringshard::model {

namespace {

Expected<Decoded> find_awq(const StoredModel& stored, const shard::TensorSpec& weight,
                           const StoredForm& form) {
    return find_grouped_codes(stored, weight, "AWQ",
                              {.bits = form.bits,
                               .group = form.group,
                               .words_hold = WordsHold::outputs,
                               .order = {0, 4, 1, 5, 2, 6, 3, 7}});
}

void read_awq_config(ConfigReader& quantised, const MatrixSizes&, StoredForm& form) {
    form.bits = quantised.whole_number_or("bits", 64, 4);
    if (form.bits != 4) quantised.complain(format_text("bits = {}: 4 is read", form.bits));
    form.group = read_group_size(quantised);
    const std::string version = quantised.word("version", quantised.word("format", "gemm"));
    if (version != "gemm" && version != "GEMM")
        quantised.complain(format_text("version = {}: must be gemm", version));
}

}  // namespace

const StoredFormat awq_format{.method = "awq",
                              .trains_whole = false,
                              .is_told_by_names = false,
                              .read_config = read_awq_config,
                              .find = find_awq};

}  // namespace ringshard::model
