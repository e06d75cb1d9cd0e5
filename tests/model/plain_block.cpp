#include "plain_block.hpp"

#include <ATen/ATen.h>

#include "ringshard/base/text.hpp"

namespace ringshard::model {

namespace {

at::Tensor normed(const at::Tensor& x, const at::Tensor& weight) {
    return weight * x * (x.square().mean(-1, true) + epsilon).rsqrt();
}

at::Tensor normed_if_named(const BlockSpec& spec, const Leaves& leaves, const at::Tensor& x,
                           const std::string& name) {
    if (name.empty()) return x;
    const at::Tensor weight = leaves.at(name + ".weight") + (spec.norm.adds_one ? 1 : 0);
    if (!spec.norm.is_centred) return normed(x, weight);
    return at::layer_norm(x, {width}, weight, leaves.at(name + ".bias"), epsilon);
}

// The layers of a projection side by side.
at::Tensor projected(const Leaves& leaves, const at::Tensor& x,
                     const std::vector<std::string>& names) {
    std::vector<at::Tensor> all;
    for (const std::string& name : names) {
        const at::Tensor& weight = leaves.at(name + ".weight");
        at::Tensor y = x.matmul(weight.t());
        if (leaves.contains(name + ".bias")) y = y + leaves.at(name + ".bias");
        if (leaves.contains(name + ".lora_A.weight")) {
            const at::Tensor& a = leaves.at(name + ".lora_A.weight");
            const at::Tensor& b = leaves.at(name + ".lora_B.weight");
            const at::Tensor seen =
                leaves.contains(name + ".mask") ? x * leaves.at(name + ".mask") : x;
            at::Tensor update = scaling * seen.matmul(a.t()).matmul(b.t());
            if (leaves.contains(name + ".lora_magnitude_vector")) {
                const at::Tensor norms = (weight + scaling * b.matmul(a)).norm(2, 1).detach();
                const at::Tensor factor = leaves.at(name + ".lora_magnitude_vector") / norms;
                update = factor * (seen.matmul(weight.t()) + update) - seen.matmul(weight.t());
            }
            y = y + update;
        }
        all.push_back(y);
    }
    return at::cat(all, 1);
}

at::Tensor turned(const at::Tensor& x, const ops::RopeTable& table) {
    const at::Tensor cosine = table.cosine.to(at::kDouble).unsqueeze(1);
    const at::Tensor sine = table.sine.to(at::kDouble).unsqueeze(1);
    const std::vector<at::Tensor> halves = x.chunk(2, 2);
    return at::cat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine},
                   2);
}

// Which keys a query sees, [t, t].
at::Tensor seen() {
    const at::Tensor index = at::arange(tokens);
    const at::Tensor document = index.ge(document_starts[1]);
    return index.unsqueeze(1).ge(index) & document.unsqueeze(1).eq(document);
}

at::Tensor attended(const BlockSpec& spec, const Leaves& leaves, const at::Tensor& x,
                    const ops::RopeTable& table) {
    const auto& [query_heads, key_heads, head_dim] = spec.attention().heads;
    const at::Tensor qkv =
        spec.attention().is_fused
            ? projected(leaves, x, {"self_attn.qkv_proj"})
            : projected(leaves, x, {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"});
    const int64_t keys = key_heads * head_dim;
    at::Tensor q = qkv.narrow(1, 0, query_heads * head_dim);
    at::Tensor k = qkv.narrow(1, query_heads * head_dim, keys);
    const bool norms_all = spec.attention().head_norm == HeadNormKind::all_heads;
    const bool norms_each = spec.attention().head_norm == HeadNormKind::each_head;
    if (norms_all) {
        q = normed(q, leaves.at("self_attn.q_norm.weight"));
        k = normed(k, leaves.at("self_attn.k_norm.weight"));
    }
    q = q.view({tokens, query_heads, head_dim});
    k = k.view({tokens, key_heads, head_dim});
    if (norms_each) {
        q = normed(q, leaves.at("self_attn.q_norm.weight"));
        k = normed(k, leaves.at("self_attn.k_norm.weight"));
    }
    const at::Tensor v =
        qkv.narrow(1, query_heads * head_dim + keys, keys).view({tokens, key_heads, head_dim});
    const auto by_heads = [&](const at::Tensor& heads) {
        return heads.repeat_interleave(query_heads / heads.size(1), 1).transpose(0, 1);
    };
    if (spec.attention().rope) {
        q = turned(q, table);
        k = turned(k, table);
    }
    const at::Tensor scores =
        by_heads(q).matmul(by_heads(k).mT()) / std::sqrt(static_cast<double>(head_dim));
    const at::Tensor sums =
        scores.masked_fill(seen().logical_not(), -1e30).softmax(-1).matmul(by_heads(v));
    return projected(leaves, sums.transpose(0, 1).reshape({tokens, -1}), {"self_attn.o_proj"});
}

at::Tensor activated(ops::Activation activation, const at::Tensor& x) {
    if (activation == ops::Activation::silu) return at::silu(x);
    return at::gelu(x, activation == ops::Activation::gelu ? "none" : "tanh");
}

// Every expert computes every token; the weights of those that were not chosen are 0.
at::Tensor experts_of(const ExpertsSpec& spec, const Leaves& leaves, const at::Tensor& x) {
    const at::Tensor p = x.matmul(leaves.at("mlp.gate.weight").t()).softmax(1);
    const at::Tensor chosen = std::get<1>(at::topk(p, spec.per_token));
    at::Tensor weights = p * at::zeros_like(p).scatter(1, chosen, 1.0);
    if (spec.routing.normalises) weights = weights / weights.sum(1, true);
    at::Tensor sum = at::zeros_like(x);
    for (int64_t expert = 0; expert < spec.count; ++expert) {
        const std::string name = format_text("mlp.experts.{}.", expert);
        const at::Tensor product =
            activated(spec.activation, projected(leaves, x, {name + "gate_proj"})) *
            projected(leaves, x, {name + "up_proj"});
        sum = sum + weights.narrow(1, expert, 1) * projected(leaves, product, {name + "down_proj"});
    }
    return sum;
}

at::Tensor mlp_of(const BlockSpec& spec, const Leaves& leaves, const at::Tensor& x) {
    if (spec.experts() != nullptr) return experts_of(*spec.experts(), leaves, x);
    if (!spec.mlp().is_gated)
        return projected(leaves,
                         activated(spec.mlp().activation, projected(leaves, x, {"mlp.up_proj"})),
                         {"mlp.down_proj"});
    const at::Tensor gate_up = spec.mlp().is_fused
                                   ? projected(leaves, x, {"mlp.gate_up_proj"})
                                   : projected(leaves, x, {"mlp.gate_proj", "mlp.up_proj"});
    const std::vector<at::Tensor> halves = gate_up.chunk(2, 1);
    return projected(leaves, activated(spec.mlp().activation, halves[0]) * halves[1],
                     {"mlp.down_proj"});
}

}  // namespace

at::Tensor plain_block(const BlockSpec& spec, const Leaves& leaves, const at::Tensor& x,
                       const ops::RopeTable& table) {
    const LayerNorms& around_attention = spec.mixer().norms;
    const LayerNorms& around_mlp = spec.feed_forward().norms;
    const at::Tensor inner = normed_if_named(spec, leaves, x, around_attention.before);
    const at::Tensor attention_residual =
        x + spec.residual_multiplier * normed_if_named(spec, leaves,
                                                       attended(spec, leaves, inner, table),
                                                       around_attention.behind);
    const at::Tensor mlp_input =
        spec.feed_forward().is_parallel && around_mlp.before.empty()
            ? inner
            : normed_if_named(spec, leaves,
                              spec.feed_forward().is_parallel ? x : attention_residual,
                              around_mlp.before);
    return attention_residual +
           spec.residual_multiplier *
               normed_if_named(spec, leaves, mlp_of(spec, leaves, mlp_input), around_mlp.behind);
}

}  // namespace ringshard::model
