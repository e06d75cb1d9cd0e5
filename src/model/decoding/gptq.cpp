#include "grouped_codes.hpp"
#include "ringshard/base/text.hpp"

// quant_method gptq, in 4 or 8 bits. MODULE.qweight [in * bits / 32, out] holds codes of
// neighbouring inputs in a word, the first in the lowest bits; qzeros [groups, out * bits / 32]
// those of neighbouring outputs; scales [groups, out]; g_idx [in] the group of each input, which
// with desc_act is any. checkpoint_format gptq (version 1) stores zeros less 1, gptq_v2 as they
// are. Under a rule of `dynamic`, or of AutoRound's extra_config, a module has other bits and
// another group.
namespace ringshard::model {

namespace {

Expected<Decoded> find_gptq(const StoredModel& stored, const shard::TensorSpec& weight,
                            const StoredForm& form) {
    return find_grouped_codes(stored, weight, "GPTQ",
                              {.bits = form.bits,
                               .group = form.group,
                               .words_hold = WordsHold::inputs,
                               .adds_one_to_zeros = form.adds_one_to_zeros,
                               .is_told_by_shapes = form.differs_by_module});
}

// Whether `dynamic` gives modules bits or groups of their own. Its rules are named by patterns of
// modules; those that begin with "-:" name modules that lie as numbers.
bool has_rules(const nlohmann::json& dynamic) {
    if (!dynamic.is_object()) return false;
    for (const auto& [pattern, rule] : dynamic.items())
        if (!pattern.starts_with("-:") && rule.is_object() && !rule.empty()) return true;
    return false;
}

void read_gptq_config(ConfigReader& quantised, const MatrixSizes&, StoredForm& form) {
    form.bits = quantised.whole_number_or("bits", 64, 4);
    if (form.bits != 4 && form.bits != 8)
        quantised.complain(format_text("bits = {}: 4 and 8 are read", form.bits));
    form.group = read_group_size(quantised);
    const std::string format =
        quantised.word("checkpoint_format", quantised.word("format", "gptq"));
    if (format != "gptq" && format != "gptq_v2")
        quantised.complain(format_text("checkpoint_format = {}: must be gptq or gptq_v2", format));
    form.adds_one_to_zeros = format == "gptq";
    form.differs_by_module = has_rules(quantised.part("dynamic")) || quantised.has("extra_config");
}

}  // namespace

const StoredFormat gptq_format{.method = "gptq",
                               .trains_whole = false,
                               .is_told_by_names = false,
                               .read_config = read_gptq_config,
                               .find = find_gptq};

}  // namespace ringshard::model
