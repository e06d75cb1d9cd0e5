#include "ringshard/model/operations.hpp"

#include <algorithm>
#include <set>

#include "model_parts.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/ops/fp8.hpp"

namespace ringshard::model {

namespace {

double product_with(const WeightShape& shape) {
    return 2 * static_cast<double>(shape.out) * static_cast<double>(shape.in);
}

// Returns those of the gradients of inputs, and of weights that are trained: as many each as the
// forward pass has. A product without a weight counts both as of its inputs.
Operations::OfProduct backward_of(const ProductUse& product, const shard::UnitLayout& module) {
    if (!product.weight) return {.of_inputs = 2 * product.operations + product.more_backward};
    const bool is_trained = module.is_trained(product.weight->weight);
    return {.of_inputs = product.operations, .of_weights = is_trained ? product.operations : 0};
}

void count_backward(const ProductUse& product, const shard::UnitLayout& module,
                    Operations& operations) {
    const Operations::OfProduct backward = backward_of(product, module);
    operations.products_backward += backward.of_inputs + backward.of_weights;
    operations.by_product[product.name] += backward;
}

// The gradients of weights are not in FP8.
void count_fp8(const ProductUse& product, bool has_backward, Operations::InFp8& in_fp8) {
    if (product.projection == nullptr) return;
    const WeightShape& shape = product.weight->shape;
    if (!ops::fits_fp8(shape.out, shape.in)) return;
    const auto out = static_cast<double>(shape.out);
    const auto in = static_cast<double>(shape.in);
    const Operations::OfProduct of_product{
        .forward = product.operations,
        .again = has_backward && product.is_made_again ? product.operations : 0,
        .of_inputs = has_backward ? product.operations : 0};
    in_fp8.products += of_product.forward;
    in_fp8.products_again += of_product.again;
    in_fp8.products_backward += of_product.of_inputs;
    in_fp8.by_product[product.name] += of_product;
    in_fp8.numbers += has_backward ? in + out : in;
    in_fp8.numbers_of_weights += has_backward ? 2 * out * in : out * in;
}

void leave_out_backward(Operations& operations) {
    operations.products_again = 0;
    for (auto& [name, of_product] : operations.by_product) of_product.again = 0;
    for (auto& [mask, of_pair] : operations.of_pair) of_pair.attention_again = 0;
}

Operations operations_of_head(const ModelParts& parts, const shard::UnitLayout& module,
                              const WeightShape& shape) {
    const ProductUse head{"head", product_with(shape), false,
                          WeightUse{shape, parts.head.projection}};
    Operations operations{.products = head.operations};
    operations.by_product[head.name] = {.forward = head.operations};
    count_backward(head, module, operations);
    double of_adapters = 0;
    for (const HeadParameters& mine : parts.heads)
        if (mine.adapter) of_adapters = std::max(of_adapters, mine.adapter->operations());
    if (parts.table_adapter) of_adapters += parts.table_adapter->operations();
    if (of_adapters == 0) return operations;
    const ProductUse adapter{"adapters", of_adapters, false};
    operations.products += adapter.operations;
    operations.by_product[adapter.name] = {.forward = adapter.operations};
    count_backward(adapter, module, operations);
    return operations;
}

Operations operations_of_layer_embeddings(const ModelParts& parts,
                                          const shard::UnitLayout& module) {
    const bool has_backward = trains_table(parts) || trains_layer_embeddings(parts);
    std::vector<ProductUse> products;
    parts.layer_embeddings->projection().add_products("embeddings of layers", has_backward,
                                                      products);
    Operations operations;
    for (const ProductUse& product : products) {
        const double again = product.is_made_again ? product.operations : 0;
        operations.products += product.operations;
        operations.products_again += again;
        operations.by_product[product.name] += {.forward = product.operations, .again = again};
        if (has_backward) count_backward(product, module, operations);
    }
    return operations;
}

Operations operations_of_block(const Block& block, const shard::UnitLayout& module,
                               config::ActivationPolicy policy, bool has_backward) {
    const StageCosts costs = block.costs(policy);
    Operations operations = costs.operations();
    if (!has_backward) leave_out_backward(operations);
    for (const ProductUse& product : costs.products) {
        if (has_backward) count_backward(product, module, operations);
        count_fp8(product, has_backward, operations.in_fp8);
    }
    if (has_backward)
        for (auto& [mask, of_pair] : operations.of_pair)
            of_pair.attention_backward = 2 * of_pair.attention;
    return operations;
}

}  // namespace

Operations operations_of(const ModelSpec& spec, const config::ActivationPolicies& policies) {
    // Kernels of rows are counted as a GPU has them.
    const ModelParts parts(spec, {.products_add = true});
    const ModuleIndex index(spec);
    Operations operations =
        operations_of_head(parts, parts.modules[index.head], {spec.head_rows(), spec.width});
    if (parts.layer_embeddings)
        operations += operations_of_layer_embeddings(parts, parts.modules[index.layer_projection]);
    const auto of_blocks = policies.of_blocks(narrow<int64_t>(parts.blocks.size()));
    const size_t first_backward = first_backward_block(parts);
    for (size_t number = 0; number < parts.blocks.size(); ++number)
        operations +=
            operations_of_block(parts.blocks[number], parts.modules[ModuleIndex::block(number)],
                                of_blocks[number], number >= first_backward);
    return operations;
}

Operations::OfProduct& Operations::OfProduct::operator+=(const OfProduct& other) {
    forward += other.forward;
    again += other.again;
    of_inputs += other.of_inputs;
    of_weights += other.of_weights;
    kernels += other.kernels;
    return *this;
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
    for (const auto& [name, more] : other.by_product) by_product[name] += more;
    for (const auto& [name, more] : other.in_fp8.by_product) in_fp8.by_product[name] += more;
    for (const auto& [mask, more] : other.of_pair) {
        of_pair[mask].attention += more.attention;
        of_pair[mask].attention_again += more.attention_again;
        of_pair[mask].attention_backward += more.attention_backward;
        of_pair[mask].merged += more.merged;
        of_pair[mask].kernels += more.kernels;
    }
    for (const auto& [part, more] : other.rows) {
        rows[part].numbers += more.numbers;
        rows[part].kernels = more.kernels;
    }
    rows_of_host += other.rows_of_host;
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
    std::set<WeightShape> shapes{{spec.head_rows(), spec.width}};
    const ModelParts parts(spec);
    for (const Block& block : parts.blocks)
        for (const WeightUse& use : block.weights()) shapes.insert(use.shape);
    if (parts.layer_embeddings) shapes.insert(parts.layer_embeddings->projection().shape());
    return {shapes.begin(), shapes.end()};
}

}  // namespace ringshard::model
