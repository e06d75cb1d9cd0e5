#include "stage_costs.hpp"

namespace ringshard::model {

void StageCosts::add_pairs(const attention::Mask& mask, const Operations::OfPair& more) {
    Operations::OfPair& sum = pairs[mask];
    sum.attention += more.attention;
    sum.attention_again += more.attention_again;
    sum.merged += more.merged;
}

Operations StageCosts::operations() const {
    Operations operations{.of_pair = pairs, .rows = rows, .rows_of_host = rows_of_host};
    for (const ProductUse& product : products) {
        const double again = product.is_made_again ? product.operations : 0;
        operations.products += product.operations;
        operations.products_again += again;
        operations.by_product[product.name] += {product.operations, again};
    }
    return operations;
}

}  // namespace ringshard::model
