#include "projection.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "ringshard/base/error.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/ops/linear.hpp"
#include "weight_product.hpp"

namespace ringshard::model {

namespace {

int64_t width_of(const std::vector<ProjectionSpec::Layer>& layers) {
    int64_t width = 0;
    for (const ProjectionSpec::Layer& layer : layers) width += layer.out;
    return width;
}

shard::ParameterGroup weights_of(const ProjectionSpec& spec) {
    shard::ParameterGroup group;
    group.placement.codec = spec.form;
    group.is_overwritten = true;
    group.is_never_quantised = spec.is_never_quantised;
    for (const ProjectionSpec::Layer& layer : spec.layers) {
        std::vector<int64_t> shape{layer.out, spec.in};
        if (spec.matrix == MatrixForm::turned) std::swap(shape[0], shape[1]);
        group.tensors.push_back({format_text("{}.weight", layer.name), std::move(shape)});
    }
    return group;
}

shard::ParameterGroup biases_of(const std::vector<ProjectionSpec::Layer>& layers) {
    shard::ParameterGroup group{{}, shard::InitialValues::zeros};
    for (const ProjectionSpec::Layer& layer : layers)
        group.tensors.push_back({format_text("{}.bias", layer.name), {layer.out}});
    return group;
}

}  // namespace

Projection::Projection(shard::UnitLayout& unit, const ProjectionSpec& spec)
    : shape_{width_of(spec.layers), spec.in},
      is_turned_(spec.matrix == MatrixForm::turned),
      weight_(unit.add(weights_of(spec))) {
    RINGSHARD_CHECK(!is_turned_ || spec.layers.size() == 1, "turned matrices do not join");
    if (spec.has_bias) add_biases(unit, spec);
    for (size_t number = 0; number < spec.variants.size(); ++number) {
        const AdapterVariant& adapter = spec.variants[number];
        variants_.push_back(LowRank::of(unit, spec, {adapter.layers, adapter.name, number}));
        own_biases_.emplace_back(unit, spec, number);
    }
    low_rank_ = LowRank::of(unit, spec, {spec.adapters});
}

template <class Work>
void Projection::for_each_range(const ProjectionContext& context, Work work) const {
    const std::vector<int64_t>& bounds = context.rows.bounds;
    if (bounds.empty()) return;
    for (size_t number = 0; number < variants_.size(); ++number) {
        const int64_t begin = bounds.at(number);
        const int64_t length = bounds.at(number + 1) - begin;
        if (length == 0) continue;
        work(number, context.of_one(begin, length),
             [=](const at::Tensor& rows) { return rows.narrow(0, begin, length); });
    }
}

template <class Work>
void Projection::for_each_variant(const ProjectionContext& context, Work work) const {
    for_each_range(context, [&](size_t number, const auto& of_one, auto rows) {
        if (variants_[number]) work(*variants_[number], of_one, rows);
    });
}

template <class Work>
at::Tensor Projection::by_chunks(const ProjectionContext& of_block, int64_t tokens,
                                 Work work) const {
    if (of_block.fp8 && of_block.fp8->delayed != nullptr && !of_block.fp8->weight)
        return by_chunks(of_block.of_weight(weight_), tokens, work);
    const ProjectionContext& context = of_block;
    const int64_t most =
        std::max<int64_t>(1, context.most_elements / std::max(shape_.in, shape_.out));
    if (tokens <= most) return work(context, [](const at::Tensor& all) { return all; });
    std::optional<at::Tensor> joined;
    for (int64_t begin = 0; begin < tokens; begin += most) {
        const int64_t length = std::min(most, tokens - begin);
        const auto rows = [=](const at::Tensor& all) { return all.narrow(0, begin, length); };
        const at::Tensor part = work(context.of_tokens(begin, length), rows);
        if (!part.defined()) continue;
        if (!joined) joined = at::empty({tokens, part.size(1)}, part.options());
        rows(*joined).copy_(part);
    }
    return joined.value_or(at::Tensor());
}

at::Tensor Projection::forward(const ProjectionContext& context, const shard::UnitTensors& weights,
                               const at::Tensor& x) const {
    return by_chunks(context, x.size(0), [&](const ProjectionContext& of_chunk, auto rows) {
        return forward_chunk(of_chunk, weights, rows(x));
    });
}

at::Tensor Projection::forward_add(const ProjectionContext& context,
                                   const shard::UnitTensors& weights, const at::Tensor& x,
                                   const at::Tensor& rows, const at::Tensor& into) const {
    if (!into.defined())
        return by_chunks(context, x.size(0), [&](const ProjectionContext& of_chunk, auto part) {
            return add_chunk(of_chunk, weights, part(x), part(rows), {});
        });
    by_chunks(context, x.size(0), [&](const ProjectionContext& of_chunk, auto part) {
        add_chunk(of_chunk, weights, part(x), part(rows), part(into));
        return at::Tensor();
    });
    return into;
}

at::Tensor Projection::backward(const ProjectionContext& context, const shard::UnitTensors& weights,
                                const shard::UnitTensors& gradients, const at::Tensor& dy,
                                const at::Tensor& x, BiasGradient of_bias) const {
    return by_chunks(context, x.size(0), [&](const ProjectionContext& of_chunk, auto rows) {
        return backward_chunk(of_chunk, weights, gradients, rows(dy), rows(x), of_bias);
    });
}

at::Tensor Projection::backward_input(const ProjectionContext& context,
                                      const shard::UnitTensors& weights,
                                      const at::Tensor& dy) const {
    return by_chunks(context, dy.size(0), [&](const ProjectionContext& of_chunk, auto rows) {
        return backward_input_of_chunk(of_chunk, weights, rows(dy));
    });
}

void Projection::add_gradients(const ProjectionContext& context, const shard::UnitTensors& weights,
                               const shard::UnitTensors& gradients, const at::Tensor& dy,
                               const at::Tensor& x, BiasGradient of_bias) const {
    by_chunks(context, x.size(0), [&](const ProjectionContext& of_chunk, auto rows) {
        add_gradients_of_chunk(of_chunk, weights, gradients, rows(dy), rows(x), of_bias);
        return at::Tensor();
    });
}

at::Tensor Projection::add_chunk(const ProjectionContext& context,
                                 const shard::UnitTensors& weights, const at::Tensor& x,
                                 const at::Tensor& rows, const at::Tensor& into) const {
    // The adapters' sum is small beside the rows: it is rounded before it is added.
    if (has_adapters()) return ops::add_into(forward_chunk(context, weights, x), rows, into);
    return weight_product_add(context, x, matrix_of(context, weights), bias_of(weights), rows,
                              into);
}

at::Tensor Projection::forward_chunk(const ProjectionContext& context,
                                     const shard::UnitTensors& weights, const at::Tensor& x) const {
    const at::Tensor bias = bias_of(weights);
    const at::Tensor base = matrix_of(context, weights);
    const at::Tensor y = weight_product(context, x, base, bias);
    if (low_rank_) low_rank_->forward({context, weights, base}, x, bias, y);
    for_each_variant(context, [&](const LowRank& low_rank, const auto& of_one, auto rows) {
        low_rank.forward({of_one, weights, base}, rows(x), bias, rows(y));
    });
    for_each_range(context, [&](size_t number, const auto&, auto rows) {
        own_biases_[number].replace(weights, bias, rows(y));
    });
    return y;
}

at::Tensor Projection::base_gradient(const ProjectionContext& context,
                                     const shard::UnitTensors& weights,
                                     const at::Tensor& dy) const {
    if (std::ranges::none_of(variants_, [](const std::optional<LowRank>& low_rank) {
            return low_rank && low_rank->has_magnitudes();
        }))
        return dy;
    const at::Tensor scaled = dy.clone();
    for_each_variant(context, [&](const LowRank& low_rank, const auto& of_one, auto rows) {
        if (low_rank.has_magnitudes())
            rows(scaled).copy_(
                low_rank.base_gradient({of_one, weights, matrix_of(context, weights)}, rows(dy)));
    });
    return scaled;
}

at::Tensor Projection::backward_chunk(const ProjectionContext& context,
                                      const shard::UnitTensors& weights,
                                      const shard::UnitTensors& gradients, const at::Tensor& dy,
                                      const at::Tensor& x, BiasGradient of_bias) const {
    add_base_gradients(context, gradients, dy, x, of_bias);
    const at::Tensor base = matrix_of(context, weights);
    if (low_rank_) {
        const LowRank::Operands operands{context, weights, base};
        const LowRank::Gradient gradient = low_rank_->begin_backward(operands, dy);
        at::Tensor dx = low_rank_->base_input_gradient(operands, gradient);
        low_rank_->add_all_gradients(operands, gradients, gradient, x, dx);
        return dx;
    }
    at::Tensor dx = weight_product_backward(context, base_gradient(context, weights, dy), base);
    for_each_variant(context, [&](const LowRank& low_rank, const auto& of_one, auto rows) {
        const LowRank::Operands operands{of_one, weights, base};
        const LowRank::Gradient gradient = low_rank.begin_backward(operands, rows(dy));
        low_rank.add_all_gradients(operands, gradients, gradient, rows(x), rows(dx));
    });
    return dx;
}

at::Tensor Projection::backward_input_of_chunk(const ProjectionContext& context,
                                               const shard::UnitTensors& weights,
                                               const at::Tensor& dy) const {
    const at::Tensor base = matrix_of(context, weights);
    if (low_rank_) {
        const LowRank::Operands operands{context, weights, base};
        return low_rank_->input_gradient(operands, low_rank_->begin_backward(operands, dy));
    }
    at::Tensor dx = weight_product_backward(context, base_gradient(context, weights, dy), base);
    for_each_variant(context, [&](const LowRank& low_rank, const auto& of_one, auto rows) {
        const LowRank::Operands operands{of_one, weights, base};
        low_rank.add_input_gradient(operands, low_rank.begin_backward(operands, rows(dy)),
                                    rows(dx));
    });
    return dx;
}

void Projection::add_gradients_of_chunk(const ProjectionContext& context,
                                        const shard::UnitTensors& weights,
                                        const shard::UnitTensors& gradients, const at::Tensor& dy,
                                        const at::Tensor& x, BiasGradient of_bias) const {
    add_base_gradients(context, gradients, dy, x, of_bias);
    if (low_rank_) {
        const LowRank::Operands operands{context, weights, matrix_of(context, weights)};
        low_rank_->add_gradients(operands, gradients, low_rank_->begin_backward(operands, dy), x);
    }
    for_each_variant(context, [&](const LowRank& low_rank, const auto& of_one, auto rows) {
        const LowRank::Operands operands{
            of_one, weights,
            low_rank.has_magnitudes() ? matrix_of(context, weights) : at::Tensor()};
        low_rank.add_gradients(operands, gradients, low_rank.begin_backward(operands, rows(dy)),
                               rows(x));
    });
}

void Projection::add_base_gradients(const ProjectionContext& context,
                                    const shard::UnitTensors& gradients, const at::Tensor& dy,
                                    const at::Tensor& x, BiasGradient of_bias) const {
    const auto [d_weight, begins] = gradients.sum(weight_);
    ops::add_weight_gradient(context.gemms, d_weight, is_turned_ ? x : dy, is_turned_ ? dy : x,
                             begins);
    if (of_bias == BiasGradient::is_missing) add_bias_gradients(gradients, dy);
    for_each_range(context, [&](size_t number, const auto&, auto rows) {
        own_biases_[number].add_gradients(gradients, rows(dy));
    });
}

void Projection::add_products(const std::string& name, bool is_made_again,
                              std::vector<ProductUse>& products) const {
    const double of_weight = 2 * static_cast<double>(shape_.out) * static_cast<double>(shape_.in);
    products.push_back({name, of_weight, is_made_again, WeightUse{shape_, weight_}, this});
    if (!has_adapters()) return;
    products.push_back({"adapters",
                        most_of_adapters(&LowRank::operations),
                        is_made_again,
                        {},
                        nullptr,
                        most_of_adapters(&LowRank::more_operations_backward)});
}

at::Tensor Projection::matrix_of(const ProjectionContext& context,
                                 const shard::UnitTensors& weights) const {
    if (!is_turned_) return weights[weight_];
    const at::Tensor matrix = weights[weight_].t();
    return context.fp8 ? matrix.contiguous() : matrix;  // FP8 has a scale for each row
}

void Projection::add_biases(shard::UnitLayout& unit, const ProjectionSpec& spec) {
    if (!spec.has_biases_apart) {
        biases_ = {{unit.add(biases_of(spec.layers)), shape_.out}};
        return;
    }
    for (const ProjectionSpec::Layer& layer : spec.layers)
        biases_.push_back({unit.add(biases_of({layer})), layer.out});
}

at::Tensor Projection::bias_of(const shard::UnitTensors& weights) const {
    if (biases_.empty()) return {};
    std::vector<at::Tensor> biases;
    for (const Bias& bias : biases_) biases.push_back(weights[bias.parameter]);
    return biases.size() == 1 ? biases.front() : at::cat(biases);
}

void Projection::add_bias_gradients(const shard::UnitTensors& gradients,
                                    const at::Tensor& dy) const {
    if (!has_biases_apart()) {
        ops::add_bias_gradient(bias_gradient(gradients), dy);
        return;
    }
    const at::Tensor sums = at::zeros({shape_.out}, dy.options().dtype(at::kFloat));
    ops::add_bias_gradient(sums, dy);
    int64_t column = 0;
    for (const auto& [parameter, out] : biases_) {
        if (gradients.has(parameter)) gradients[parameter].add_(sums.narrow(0, column, out));
        column += out;
    }
}

}  // namespace ringshard::model
