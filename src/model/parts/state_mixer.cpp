#include "state_mixer.hpp"

#include <ATen/ops/zeros.h>

#include <utility>

#include "ringshard/attention/cached_delta.hpp"

namespace ringshard::model {

using config::ActivationPolicy;

StateMixer::StateMixer(SavedLayout& saved, const attention::DeltaSizes& sizes)
    : Mixer(saved),
      sizes_(sizes),
      read_(saved.add(ActivationPolicy::attention)),
      first_state_(saved.add(ActivationPolicy::attention)),
      before_(saved.add(ActivationPolicy::attention)),
      between_(saved.add(ActivationPolicy::attention)) {}

void StateMixer::read_states(const Pass& pass, const at::Tensor& columns,
                             const attention::DeltaWeights& weights) const {
    const auto& [context, of_unit, saved] = pass;
    if (saved.has(read_)) return;
    const attention::Plan& plan = context.plan_of({.through_state = true});
    if (context.cache != nullptr) {
        saved[read_] =
            attention::delta_cached(sizes_, columns, weights, plan, context.cache->states);
        return;
    }
    auto [out, first_state, before, between] =
        engine(context).forward(sizes_, columns, weights, plan);
    saved[read_] = std::move(out);
    saved[first_state_] = std::move(first_state);
    saved[before_] = std::move(before);
    saved[between_] = std::move(between);
}

at::Tensor StateMixer::columns_backward(const BackwardPass& pass, const at::Tensor& columns,
                                        const attention::DeltaWeights& weights,
                                        const attention::DeltaWeights& gradients,
                                        const at::Tensor& d_read) const {
    const Saved& saved = pass.saved;
    return engine(pass.context)
        .backward(sizes_, columns, weights,
                  {saved[read_], saved[first_state_], saved[before_], saved[between_]},
                  d_read.view(saved[read_].sizes()), gradients,
                  pass.context.plan_of({.through_state = true}));
}

void StateMixer::make_cache(LayerCache& cache, int64_t, int64_t texts,
                            const at::TensorOptions& options) const {
    cache.states = {at::zeros({texts, sizes_.value_heads, sizes_.key_dim, sizes_.value_dim},
                              options.dtype(at::kFloat)),
                    at::zeros({texts, attention::rows_before, sizes_.convolved()}, options)};
}

void StateMixer::add_costs(StageCosts& costs, bool makes_output_again) const {
    // For one token and value head: the products of a chunk with its keys, its values and its
    // state.
    const auto heads = static_cast<double>(sizes_.value_heads);
    const auto dk = static_cast<double>(sizes_.key_dim);
    const auto dv = static_cast<double>(sizes_.value_dim);
    constexpr double chunk = 64;
    const double rule = sizes_.is_additive() ? heads * (chunk * 2 * (dk + dv) + 4 * dk * dv)
                                             : heads * (chunk * (6 * dk + 4 * dv) + 6 * dk * dv);
    constexpr double taps = attention::rows_before + 1;
    const double conv = 2.0 * taps * static_cast<double>(sizes_.convolved());
    const bool is_read_again = !read_.is_kept(costs.policy);
    first_product()->add_products("in", is_projected_again(costs.policy), costs.products);
    costs.products.push_back(convolution(conv, is_read_again));
    // Products within chunks, by the library, and the programs between them.
    const std::vector<std::string> programs{"::Walk", "::PassStates", "::Inverse"};
    costs.products.push_back({.name = "states",
                              .operations = rule,
                              .is_made_again = is_read_again,
                              .kernels = {programs, programs, true}});
    last_product()->add_products("out", makes_output_again, costs.products);
}

}  // namespace ringshard::model
