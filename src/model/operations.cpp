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
    attention += other.attention;
    attention_again += other.attention_again;
    return *this;
}

double Operations::of_training(double num_tokens, double squares) const {
    constexpr double passes = 3;  // a forward pass, and a backward pass of twice its work
    constexpr double seen = 0.5;  // of all pairs, by causal attention
    return passes * products * num_tokens + passes * seen * attention * squares;
}

std::vector<WeightShape> linear_layers(const ModelSpec& spec) {
    std::set<WeightShape> shapes{{spec.vocabulary, spec.width}};
    for (const Block& block : ModelParts(spec).blocks)
        for (const Projection* projection : block.projections()) shapes.insert(projection->shape());
    return {shapes.begin(), shapes.end()};
}

}  // namespace ringshard::model
