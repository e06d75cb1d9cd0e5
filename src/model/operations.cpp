#include "ringshard/model/operations.hpp"

#include <set>

#include "model_parts.hpp"
#include "ringshard/base/narrow.hpp"

namespace ringshard::model {

Operations operations_of(const ModelSpec& spec, const config::ActivationPolicies& policies) {
    Operations operations{.products = 2 * static_cast<double>(spec.vocabulary) *
                                      static_cast<double>(spec.width)};
    const ModelParts parts(spec);
    const auto of_blocks = policies.of_blocks(narrow<int64_t>(parts.blocks.size()));
    for (size_t block = 0; block < parts.blocks.size(); ++block)
        operations += parts.blocks[block].operations(of_blocks[block]);
    return operations;
}

Operations& Operations::operator+=(const Operations& other) {
    products += other.products;
    products_again += other.products_again;
    for (const auto& [mask, more] : other.of_pair) {
        of_pair[mask].attention += more.attention;
        of_pair[mask].attention_again += more.attention_again;
    }
    return *this;
}

double Operations::of_training(std::span<const int64_t> document_lengths) const {
    constexpr double passes = 3;  // a forward pass, and a backward pass of twice its work
    double num_tokens = 0;
    for (const int64_t length : document_lengths) num_tokens += static_cast<double>(length);
    double total = passes * products * num_tokens;
    for (const auto& [mask, operations] : of_pair) {
        double pairs = 0;
        for (const int64_t length : document_lengths)
            pairs += attention::visible_pairs(static_cast<double>(length), mask);
        total += passes * operations.attention * pairs;
    }
    return total;
}

std::vector<WeightShape> linear_layers(const ModelSpec& spec) {
    std::set<WeightShape> shapes{{spec.vocabulary, spec.width}};
    for (const Block& block : ModelParts(spec).blocks)
        for (const Projection* projection : block.projections()) shapes.insert(projection->shape());
    return {shapes.begin(), shapes.end()};
}

}  // namespace ringshard::model
