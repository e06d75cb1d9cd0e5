#include "ringshard/model/operations.hpp"

#include <set>

#include "model_parts.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/ops/fp8.hpp"

namespace ringshard::model {

namespace {

// Returns the operations of a weight's products in the backward pass: the gradient of the input,
// and that of the weight if it is trained.
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

// The products of a block have the same share in FP8 when the backward pass makes them again.
void count_fp8(const Block& block, bool has_backward, Operations& operations) {
    Operations::InFp8& in_fp8 = operations.in_fp8;
    for (const Projection* projection : block.projections()) {
        const auto out = static_cast<double>(projection->shape().out);
        const auto in = static_cast<double>(projection->shape().in);
        if (!ops::fits_fp8(projection->shape().out, projection->shape().in)) continue;
        in_fp8.products += 2 * out * in;
        in_fp8.products_backward += has_backward ? 2 * out * in : 0;
        in_fp8.numbers += has_backward ? in + out : in;
        in_fp8.numbers_of_weights += has_backward ? 2 * out * in : out * in;
    }
    in_fp8.products_again = operations.products_again * in_fp8.products / operations.products;
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
        count_fp8(block, number >= first_backward, of_block);
        operations += of_block;
    }
    return operations;
}

Operations& Operations::operator+=(const Operations& other) {
    products += other.products;
    products_again += other.products_again;
    products_backward += other.products_backward;
    in_fp8.products += other.in_fp8.products;
    in_fp8.products_again += other.in_fp8.products_again;
    in_fp8.products_backward += other.in_fp8.products_backward;
    in_fp8.numbers += other.in_fp8.numbers;
    in_fp8.numbers_of_weights += other.in_fp8.numbers_of_weights;
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
