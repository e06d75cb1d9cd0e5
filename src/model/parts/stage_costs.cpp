#include "stage_costs.hpp"

namespace ringshard::model {

void StageCosts::add_pairs(const attention::Mask& mask, const Operations::OfPair& more) {
    Operations::OfPair& sum = pairs[mask];
    sum.attention += more.attention;
    sum.attention_again += more.attention_again;
    sum.merged += more.merged;
    sum.kernels += more.kernels;
}

Operations StageCosts::operations() const {
    Operations operations{.of_pair = pairs, .rows = rows, .rows_of_host = rows_of_host};
    for (const ProductUse& product : products) {
        const double again = product.is_made_again ? product.operations : 0;
        operations.products += product.operations;
        operations.products_again += again;
        operations.by_product[product.name] +=
            {.forward = product.operations, .again = again, .kernels = product.kernels};
    }
    return operations;
}

ProductUse convolution(double operations, bool is_made_again) {
    return {.name = "convolution",
            .operations = operations,
            .is_made_again = is_made_again,
            .kernels = {{"::ConvForward"}, {"::OfSums", "::OfRows", "::OfWeights"}}};
}

Operations::OfPair attention_of(double width, bool is_made_again, double merged) {
    // A score and a sum of values, each a multiplication and an addition for an element.
    const double of_pair = 4 * width;
    return {.attention = of_pair,
            .attention_again = is_made_again ? of_pair : 0,
            .merged = merged,
            // Of cuDNN and FlashAttention-2.
            .kernels = {{"flash_fprop", "flash_fwd"},
                        {"flash_bprop", "flash_bwd", "compute_dot_do_o", "convert_dq_to_16bits",
                         "fmha_reduce_head"}}};
}

}  // namespace ringshard::model
