#include "../value_text.hpp"
#include "foreign_import.hpp"

// The trainer of the authors of SimPO: the alignment handbook's settings, and some of its own.
namespace ringshard::config {

namespace {

using enum KeyMeaning;

constexpr ForeignKey simpo_keys[] = {
    {"gamma_beta_ratio", read},
    {"loss_type", refused, "the logistic loss of SimPO is learned (sigmoid)", "sigmoid"},
    {"sft_weight", refused,
     "the likelihood of chosen answers beside the loss is cpo_alpha of `trainer cpo`, a mean over "
     "the tokens of a micro-batch; leave it out"},
};

constexpr ForeignDefault simpo_defaults[] = {
    {"method", "cpo"}, {"loss_type", "simpo"}, {"cpo_alpha", "0"}, {"beta", "2"}};

// CPO's margin is divided by beta before it is subtracted.
void translate_simpo(ForeignImport& import) {
    const double beta = import.number("beta", 2);
    import.set("gamma_beta_ratio", "simpo_gamma",
               shortest(import.number("gamma_beta_ratio", 0) * beta));
    import.note("gamma_beta_ratio",
                "simpo_gamma is the ratio times beta of this file, and rows are tokenized as TRL "
                "does for CPO");
}

}  // namespace

const ForeignTrainer& simpo() {
    static const ForeignTrainer trainer{"SimPO", {simpo_keys}, simpo_defaults, translate_simpo};
    return trainer;
}

}  // namespace ringshard::config
