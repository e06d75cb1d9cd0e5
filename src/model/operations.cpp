#include "ringshard/model/operations.hpp"

#include <set>

#include "model_parts.hpp"
#include "ringshard/base/narrow.hpp"

namespace ringshard::model {

namespace {

// Of a product with a weight in the backward pass: the gradient of its input, and that of the
// weight if it is trained.
double backward_of(const WeightShape& shape, shard::Role role) {
    const double one = 2 * static_cast<double>(shape.out) * static_cast<double>(shape.in);
    return role == shard::Role::trained ? 2 * one : one;
}

void count_backward(const Block& block, const shard::UnitLayout& module, Operations& operations) {
    operations.products_backward = 2 * operations.products;
    for (const WeightUse& use : block.weights())
        operations.products_backward +=
            use.rows_per_token * (backward_of(use.shape, module.role_of(use.weight)) -
                                  backward_of(use.shape, shard::Role::trained));
    for (const Projection* projection : block.projections())
        operations.products_backward += projection->more_operations_backward();
    for (auto& [mask, of_pair] : operations.of_pair)
        of_pair.attention_backward = 2 * of_pair.attention;
}

void leave_out_backward(Operations& operations) {
    operations.products_again = 0;
    for (auto& [mask, of_pair] : operations.of_pair) of_pair.attention_again = 0;
}

}  // namespace

Operations operations_of(const ModelSpec& spec, const config::ActivationPolicies& policies) {
    const ModelParts parts(spec);
    const ModuleIndex index(spec);
    const WeightShape head{spec.vocabulary, spec.width};
    Operations operations{.products = backward_of(head, shard::Role::frozen),
                          .products_backward = backward_of(
                              head, parts.modules[index.head].role_of(parts.head.projection))};
    const auto of_blocks = policies.of_blocks(narrow<int64_t>(parts.blocks.size()));
    const size_t first_backward = first_backward_block(parts);
    for (size_t number = 0; number < parts.blocks.size(); ++number) {
        const Block& block = parts.blocks[number];
        Operations of_block = block.operations(of_blocks[number]);
        if (number >= first_backward)
            count_backward(block, parts.modules[ModuleIndex::block(number)], of_block);
        else
            leave_out_backward(of_block);
        operations += of_block;
    }
    return operations;
}

Operations& Operations::operator+=(const Operations& other) {
    products += other.products;
    products_again += other.products_again;
    products_backward += other.products_backward;
    for (const auto& [mask, more] : other.of_pair) {
        of_pair[mask].attention += more.attention;
        of_pair[mask].attention_again += more.attention_again;
        of_pair[mask].attention_backward += more.attention_backward;
    }
    return *this;
}

double Operations::of_training(std::span<const int64_t> document_lengths) const {
    double num_tokens = 0;
    for (const int64_t length : document_lengths) num_tokens += static_cast<double>(length);
    double total = (products + products_backward) * num_tokens;
    for (const auto& [mask, operations] : of_pair) {
        double pairs = 0;
        for (const int64_t length : document_lengths)
            pairs += attention::visible_pairs(static_cast<double>(length), mask);
        total += (operations.attention + operations.attention_backward) * pairs;
    }
    return total;
}

std::vector<WeightShape> linear_layers(const ModelSpec& spec) {
    std::set<WeightShape> shapes{{spec.vocabulary, spec.width}};
    for (const Block& block : ModelParts(spec).blocks)
        for (const WeightUse& use : block.weights()) shapes.insert(use.shape);
    return {shapes.begin(), shapes.end()};
}

}  // namespace ringshard::model
