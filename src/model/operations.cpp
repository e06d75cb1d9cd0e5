#include "ringshard/model/operations.hpp"

#include <set>

#include "model_parts.hpp"

namespace ringshard::model {

Operations operations_of(const ModelSpec& spec, config::ActivationPolicy policy) {
    Operations operations{.products = 2 * static_cast<double>(spec.vocabulary) *
                                      static_cast<double>(spec.width)};
    for (const Block& block : ModelParts(spec).blocks) operations += block.operations(policy);
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
