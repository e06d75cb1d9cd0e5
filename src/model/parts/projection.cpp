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
    bool has_any = false;
    for (size_t number = 0; number < spec.adapters.size(); ++number) {
        learners_.push_back({LowRank::of(unit, spec, number), OwnBiases(unit, spec, number)});
        has_any |= learners_.back().low_rank.has_value() || !learners_.back().biases.empty();
    }
    if (!has_any) learners_.clear();
}

template <class Work>
void Projection::for_each_learner(const ProjectionContext& context, int64_t tokens,
                                  Work work) const {
    if (learners_.empty()) return;
    const std::vector<int64_t> bounds = context.rows.bounds_of(learners_.size(), tokens);
    for (size_t number = 0; number + 1 < bounds.size(); ++number) {
        const int64_t begin = bounds[number];
        const int64_t length = bounds[number + 1] - begin;
        if (length == 0) continue;
        work(learners_.at(number), context.of_one(begin, length), Tokens{begin, length});
    }
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
    for_each_learner(
        context, x.size(0), [&](const Learner& mine, const auto& of_one, const Tokens& tokens) {
            if (mine.low_rank)
                mine.low_rank->forward({of_one, weights, base}, tokens.of(x), bias, tokens.of(y));
            mine.biases.replace(weights, bias, tokens.of(y));
        });
    return y;
}

bool Projection::has_magnitudes() const {
    return std::ranges::any_of(learners_, [](const Learner& learner) {
        return learner.low_rank && learner.low_rank->has_magnitudes();
    });
}

Projection::Backward Projection::begin_backward(const ProjectionContext& context,
                                                const shard::UnitTensors& weights,
                                                const at::Tensor& base,
                                                const at::Tensor& dy) const {
    const at::Tensor scaled = has_magnitudes() ? dy.clone() : dy;
    Backward begun{.of_base = dy, .learners = {}};
    bool scales_base = false;
    for_each_learner(context, dy.size(0),
                     [&](const Learner& mine, const auto& of_one, const Tokens& tokens) {
                         if (!mine.low_rank) return;
                         scales_base |= mine.low_rank->scales_base(of_one);
                         begun.learners.push_back(
                             {*mine.low_rank, of_one, tokens,
                              mine.low_rank->begin_backward({of_one, weights, base}, tokens.of(dy),
                                                            tokens.of(scaled))});
                     });
    if (!scales_base) return begun;
    begun.of_base = scaled;
    for (const OfLearner& mine : begun.learners) {
        if (!mine.low_rank.has_magnitudes() || mine.low_rank.scales_base(mine.context)) continue;
        if (begun.of_base.is_same(scaled)) begun.of_base = scaled.clone();
        mine.tokens.of(begun.of_base).copy_(mine.tokens.of(dy));
    }
    return begun;
}

at::Tensor Projection::backward_chunk(const ProjectionContext& context,
                                      const shard::UnitTensors& weights,
                                      const shard::UnitTensors& gradients, const at::Tensor& dy,
                                      const at::Tensor& x, BiasGradient of_bias) const {
    add_base_gradients(context, gradients, dy, x, of_bias);
    const at::Tensor base = matrix_of(context, weights);
    const Backward begun = begin_backward(context, weights, base, dy);
    at::Tensor dx = weight_product_backward(context, begun.of_base, base);
    for (const OfLearner& mine : begun.learners)
        mine.low_rank.add_all_gradients(mine.operands(weights, base), gradients, mine.gradient,
                                        mine.tokens.of(x), mine.tokens.of(dx));
    return dx;
}

at::Tensor Projection::backward_input_of_chunk(const ProjectionContext& context,
                                               const shard::UnitTensors& weights,
                                               const at::Tensor& dy) const {
    const at::Tensor base = matrix_of(context, weights);
    const Backward begun = begin_backward(context, weights, base, dy);
    at::Tensor dx = weight_product_backward(context, begun.of_base, base);
    for (const OfLearner& mine : begun.learners)
        mine.low_rank.add_input_gradient(mine.operands(weights, base), mine.gradient,
                                         mine.tokens.of(dx));
    return dx;
}

void Projection::add_gradients_of_chunk(const ProjectionContext& context,
                                        const shard::UnitTensors& weights,
                                        const shard::UnitTensors& gradients, const at::Tensor& dy,
                                        const at::Tensor& x, BiasGradient of_bias) const {
    add_base_gradients(context, gradients, dy, x, of_bias);
    const at::Tensor base = has_magnitudes() ? matrix_of(context, weights) : at::Tensor();
    const Backward begun = begin_backward(context, weights, base, dy);
    for (const OfLearner& mine : begun.learners)
        mine.low_rank.add_gradients(mine.operands(weights, base), gradients, mine.gradient,
                                    mine.tokens.of(x));
}

void Projection::add_base_gradients(const ProjectionContext& context,
                                    const shard::UnitTensors& gradients, const at::Tensor& dy,
                                    const at::Tensor& x, BiasGradient of_bias) const {
    const auto [d_weight, begins] = gradients.sum(weight_);
    ops::add_weight_gradient(context.gemms, d_weight, is_turned_ ? x : dy, is_turned_ ? dy : x,
                             begins);
    if (of_bias == BiasGradient::is_missing) add_bias_gradients(gradients, dy);
    for_each_learner(context, dy.size(0),
                     [&](const Learner& mine, const auto&, const Tokens& tokens) {
                         mine.biases.add_gradients(gradients, tokens.of(dy));
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
