#include "ringshard/model/spec_fields.hpp"

#include <vector>

#include "ringshard/base/text.hpp"

namespace ringshard::model {

namespace {

using Fields = std::map<std::string, std::string>;

std::string text(bool value) { return value ? "true" : "false"; }
std::string text(int64_t value) { return concat(value); }
std::string text(double value) { return shortest(value); }
template <class Enum>
requires std::is_enum_v<Enum> std::string text(Enum value) {
    return concat(static_cast<int64_t>(value));
}
template <class Value>
std::string text(const std::optional<Value>& value) {
    return value ? text(*value) : "none";
}
std::string text(const std::vector<double>& values) {
    std::vector<std::string> shown;
    for (const double value : values) shown.push_back(shortest(value));
    return join(shown, " ");
}

std::string text(ops::Activation activation) {
    switch (activation) {
        case ops::Activation::silu: return "silu";
        case ops::Activation::gelu: return "gelu";
        case ops::Activation::gelu_tanh: return "gelu_tanh";
        case ops::Activation::relu: return "relu";
        case ops::Activation::relu_squared: return "relu_squared";
    }
    return {};
}

std::string text(RopeKind kind) {
    switch (kind) {
        case RopeKind::plain: return "default";
        case RopeKind::linear: return "linear";
        case RopeKind::llama3: return "llama3";
        case RopeKind::yarn: return "yarn";
        case RopeKind::longrope: return "longrope";
        case RopeKind::proportional: return "proportional";
    }
    return {};
}

// The lists of names in these functions are as long as the structs: a new field does not compile
// until it is here.
void add(Fields& fields, const std::string& name, const NormForm& norm) {
    const auto& [epsilon, is_centred, has_weight, has_bias, adds_one] = norm;
    fields[name + "_eps"] = text(epsilon);
    fields[name] = format_text("{}{}{}{}", is_centred ? "LayerNorm" : "RMSNorm",
                               has_weight ? "" : " without weight", has_bias ? " with bias" : "",
                               adds_one ? " of 1 + weight" : "");
}

void add(Fields& fields, const RopeSpec& rope, size_t number) {
    const auto& [kind, theta, factor, original_positions, low_frequency_factor,
                 high_frequency_factor, fast_rotations, slow_rotations, rounds_dimensions,
                 attention_scaling, rotated_part, rotated_elements, is_interleaved, short_factors,
                 long_factors] = rope;
    const std::string of_rope = number == 0 ? "rope_" : format_text("rope_{}_", number + 1);
    const auto put = [&](const char* name, const auto& value) {
        fields[of_rope + name] = text(value);
    };
    put("type", kind);
    put("theta", theta);
    put("factor", factor);
    put("original_max_position_embeddings", original_positions);
    put("low_freq_factor", low_frequency_factor);
    put("high_freq_factor", high_frequency_factor);
    put("beta_fast", fast_rotations);
    put("beta_slow", slow_rotations);
    put("truncate", rounds_dimensions);
    put("attention_factor", attention_scaling);
    put("partial_rotary_factor", rotated_part);
    if (rotated_elements > 0) put("rotated_elements", rotated_elements);
    put("is_interleaved", is_interleaved);
    put("short_factor", short_factors);
    put("long_factor", long_factors);
}

std::string text(const attention::DeltaSizes& sizes) {
    const auto& [key_heads, value_heads, key_dim, value_dim, rule] = sizes;
    return format_text("{} key heads of {}, {} value heads of {}, rule {}", key_heads, key_dim,
                       value_heads, value_dim, static_cast<int64_t>(rule));
}

std::string text(const attention::Mask& mask) {
    return mask.through_state ? "state" : text(mask.window);
}

void add(Fields& fields, const AttentionSpec& attention) {
    const auto& [heads, is_fused, is_fused_by_heads, values_are_keys, qkv, has_bias, has_out_bias,
                 module, out, head_norm, norms_rotated_heads, query_norm, key_norm, norms_values,
                 rope, mask, gates, sinks, shared_keys, value_dim, value_factor, scores] =
        attention;
    fields["num_attention_heads"] = text(heads.query_heads);
    fields["num_key_value_heads"] = text(heads.key_heads);
    fields["head_dim"] = text(heads.head_dim);
    fields["qkv_is_fused_by_heads"] = text(is_fused_by_heads);
    if (values_are_keys) fields["attention_k_eq_v"] = text(values_are_keys);
    fields["attention_bias"] = text(has_bias);
    fields["attention_out_bias"] = text(has_out_bias);
    fields["qk_norm"] = text(head_norm);
    if (norms_values) fields["v_norm"] = text(norms_values);
    fields["norms_rotated_heads"] = text(norms_rotated_heads);
    fields["rope_of_layers"] = rope ? concat(*rope + 1) : "none";
    fields["sliding_window"] = text(mask);
    fields["attention_gate"] = text(gates != HeadGates::none);
    if (gates > HeadGates::in_queries) fields["attention_gate_kind"] = text(gates);
    fields["attention_sinks"] = text(!sinks.empty());
    if (value_dim > 0) fields["v_head_dim"] = text(value_dim);
    if (value_factor != 1) fields["attention_value_scale"] = text(value_factor);
    if (shared_keys)
        fields["shared_keys"] =
            format_text("{} of group {}", shared_keys->makes_them ? "makes those" : "takes those",
                        shared_keys->group);
}

// The fields of an attention without latents are among those of checkpoints.
void add(Fields& fields, const LatentSpec& latent) {
    const auto& [heads, key_dim, rank, query_rank, rotated, value_dim, norm, has_bias, has_out_bias,
                 module, out, gates, rope, mask, scores] = latent;
    add(fields, AttentionSpec{.heads = heads,
                              .has_bias = has_bias,
                              .has_out_bias = has_out_bias,
                              .rope = rope,
                              .mask = mask,
                              .gates = gates});
    fields["latent"] = format_text("keys of {}, rank {}, of queries {}, {} rotate, values of {}",
                                   key_dim, rank, query_rank, rotated, value_dim);
}

void add(Fields& fields, const std::string& of_mlp, const MlpSpec& mlp) {
    const auto& [intermediate, is_fused, is_gated, has_bias, activation, has_xielu, gate_multiplier,
                 gate, up, gate_up, down] = mlp;
    fields[of_mlp + "intermediate_size"] = text(intermediate);
    fields[of_mlp + "mlp_gate"] = text(is_gated);
    fields[of_mlp + "mlp_bias"] = text(has_bias);
    if (gate_multiplier != 1) fields[of_mlp + "gate_multiplier"] = text(gate_multiplier);
    fields[of_mlp + "hidden_act"] = has_xielu ? "xielu" : text(activation);
}

void add(Fields& fields, const ops::RouterForm& routing) {
    const auto& [is_sigmoid, normalises, least_sum, added_to_sum, scaling, groups, chosen_groups,
                 best_of_group] = routing;
    fields["scoring_func"] = is_sigmoid ? "sigmoid" : "softmax";
    fields["norm_topk_prob"] = text(normalises);
    fields["norm_topk_prob_least_sum"] = text(least_sum);
    fields["norm_topk_prob_added"] = text(added_to_sum);
    fields["routed_scaling_factor"] = text(scaling);
    fields["n_group"] = text(groups);
    fields["topk_group"] = text(chosen_groups);
    if (best_of_group != 2) fields["best_of_group"] = text(best_of_group);
}

void add(Fields& fields, const ExpertsSpec& experts) {
    const auto& [count, per_token, intermediate, routing, routes_in_fp32, correction,
                 correction_is_row, is_gated, activation, tensors, clamped, router_has_bias,
                 router_is_layer, shared, shared_gate, router, names, gate, up, down, router_scale,
                 expert_scales, beside, planned_experts] = experts;
    fields["num_experts"] = text(count);
    fields["num_experts_per_tok"] = text(per_token);
    fields["moe_intermediate_size"] = text(intermediate);
    add(fields, routing);
    fields["router_in_fp32"] = text(routes_in_fp32);
    fields["router_correction"] = text(!correction.empty());
    fields["moe_hidden_act"] =
        tensors == ExpertTensors::turned
            ? format_text("clamped swiglu {} {}", shortest(clamped.alpha), shortest(clamped.limit))
            : text(activation);
    if (!is_gated) fields["moe_gate"] = text(is_gated);
    fields["router_bias"] = text(router_has_bias);
    if (shared) add(fields, "shared_expert_", *shared);
    if (beside) add(fields, "mlp_beside_experts_", beside->mlp);
    if (!router_scale.empty()) fields["router_scale"] = text(true);
    if (!expert_scales.empty()) fields["expert_scales"] = text(true);
    fields["shared_expert"] = shared ? (shared_gate.empty() ? "plain" : "gated") : "none";
}

void add(Fields& fields, const DeltaNetSpec& net) {
    const auto& [sizes, layers, module, out, norm_epsilon, opening, least_log_decay, beta_scale] =
        net;
    fields["linear_attention"] = text(sizes) + (layers == DeltaLayers::grouped ? ", grouped" : "");
    if (least_log_decay < 0) fields["least_log_decay"] = text(least_log_decay);
    if (beta_scale != 1) fields["beta_scale"] = text(beta_scale);
}

void add(Fields& fields, const DeltaByRowSpec& net) {
    fields["linear_attention"] = format_text("{}, rank {}", text(net.sizes), net.rank);
}

void add(Fields& fields, const MambaSpec& mamba) {
    const auto& [sizes, module, has_bias, has_out_bias, has_conv_bias, norm_groups, has_norm,
                 multipliers, least_step] = mamba;
    fields["mamba"] = format_text("{}, bias {}, convolution's bias {}, {} norm groups", text(sizes),
                                  has_bias, has_conv_bias, norm_groups);
    if (has_out_bias != has_bias) fields["mamba_out_bias"] = text(has_out_bias);
    if (!has_norm) fields["mamba_norm"] = "none";
    if (least_step > 0) fields["mamba_least_step"] = text(least_step);
    if (multipliers != MambaSpec().multipliers)
        fields["mamba_multipliers"] =
            text(std::vector<double>(multipliers.begin(), multipliers.end()));
}

void add(Fields& fields, const ShortConvSpec& conv) {
    const auto& [sizes, taps, has_bias] = conv;
    fields["short_conv"] =
        format_text("{} columns, {} taps, bias {}", sizes.convolved(), taps, has_bias);
}

void add(Fields& fields, const MlpSpec& mlp) { add(fields, "", mlp); }

// of: "attention" or "mlp".
template <class Part>
void add(Fields& fields, const LayerSpec<Part>& layer, const char* kind_field, const char* of) {
    const auto& [part, norms, is_parallel, factor] = layer;
    std::string& kinds = fields[kind_field];
    const std::string kind = std::visit([](const auto& spec) { return spec.kind; }, part);
    kinds += (kinds.empty() ? "" : " + ") + kind;
    std::visit([&](const auto& spec) { add(fields, spec); }, part);
    fields[concat(of, "_norms")] = format_text("[{}] [{}]", norms.before, norms.behind);
    fields["parallel_residual"] = text(is_parallel);
    if (factor != 1) fields[kind + "_factor"] = text(factor);
}

Fields fields_of(const BlockSpec& block) {
    const auto& [width, norm, mixers, last, embedding, adapters, has_biases_apart,
                 residual_multiplier, stream_factor, matrices] = block;
    Fields fields;
    add(fields, "norm", norm);
    for (const auto& mixer : mixers) add(fields, mixer, "layer_type", "attention");
    if (last) add(fields, *last, "mlp_type", "mlp");
    if (embedding) {
        fields["embedding_of_layer"] = text(embedding->part.width);
        fields["embedding_of_layer_act"] = text(embedding->part.activation);
    }
    fields["residual_multiplier"] = text(residual_multiplier);
    if (!stream_factor.empty()) fields[stream_factor] = text(true);
    return fields;
}

// Blocks that attend have the same cap, and as a rule the same scale.
void add_scores(Fields& fields, const std::vector<BlockSpec>& blocks) {
    std::vector<std::string> scales;
    for (const BlockSpec& block : blocks)
        for (const auto& mixer : block.mixers) {
            const auto add_those_of = [&](const auto& spec) {
                if constexpr (requires { spec.scores; }) {
                    scales.push_back(text(spec.scores.scale));
                    fields["attn_logit_softcapping"] = text(spec.scores.cap);
                }
            };
            std::visit(add_those_of, mixer.part);
        }
    if (scales.empty()) return;
    const bool is_one = std::ranges::count(scales, scales.front()) == std::ssize(scales);
    fields["attention_multiplier"] = is_one ? scales.front() : join(scales, ", ");
}

// Adds the fields of the blocks: one value where all blocks have it, else "0-3: a, 4: b".
void add(Fields& fields, const std::vector<BlockSpec>& blocks) {
    struct Stretch {
        size_t first;
        size_t last;
        std::string value;
    };
    std::map<std::string, std::vector<Stretch>> stretches;
    for (size_t block = 0; block < blocks.size(); ++block)
        for (auto& [name, value] : fields_of(blocks[block])) {
            std::vector<Stretch>& list = stretches[name];
            if (!list.empty() && list.back().last + 1 == block && list.back().value == value)
                list.back().last = block;
            else
                list.push_back({block, block, value});
        }
    for (const auto& [name, list] : stretches) {
        const bool is_everywhere =
            list.size() == 1 && list.front().first == 0 && list.front().last + 1 == blocks.size();
        std::vector<std::string> shown;
        for (const auto& [first, last, value] : list)
            shown.push_back(first == last ? format_text("{}: {}", first, value)
                                          : format_text("{}-{}: {}", first, last, value));
        fields[name] = is_everywhere ? list.front().value : join(shown, ", ");
    }
}

}  // namespace

std::map<std::string, std::string> spec_fields(const ModelSpec& spec) {
    const auto& [architecture, peft, vocabulary, stored_vocabulary, width, blocks, tied, norm,
                 names, layer_embeddings, has_head_bias, scores, ropes, query_scale,
                 embedding_multiplier, rounds_embedding_multiplier, logits_multiplier, logits_cap,
                 padding_token, router_aux_loss_coef, has_router_aux_loss, router_loss_left_out,
                 initializer_range, initial_part_of_outputs, max_positions, config_json, is_wrapped,
                 text_config, stored_form, constants, ignores_further_blocks, other_names, frozen,
                 update_rules, frozen_form, reads_head_from_embedding, adapters, trained_rows] =
        spec;
    Fields fields;
    fields["architecture"] = architecture;
    fields["vocab_size"] = text(vocabulary);
    fields["hidden_size"] = text(width);
    fields["num_hidden_layers"] = concat(blocks.size());
    add(fields, blocks);
    fields["tie_word_embeddings"] = text(tied);
    add(fields, "final_norm", norm);
    fields["lm_head_bias"] = text(has_head_bias);
    fields["num_labels"] = scores ? concat(scores->count) : "none";
    for (size_t number = 0; number < ropes.size(); ++number) add(fields, ropes[number], number);
    fields["query_scale"] = query_scale ? format_text("{} from {}", shortest(query_scale->beta),
                                                      shortest(query_scale->original_positions))
                                        : "none";
    add_scores(fields, blocks);
    fields["embedding_multiplier"] = text(embedding_multiplier);
    fields["rounds_embedding_multiplier"] = text(rounds_embedding_multiplier);
    fields["logits_multiplier"] = text(logits_multiplier);
    fields["final_logit_softcapping"] = text(logits_cap);
    fields["pad_token_id"] = text(padding_token);
    fields["router_aux_loss_coef"] = text(router_aux_loss_coef);
    fields["max_position_embeddings"] = text(max_positions);
    if (layer_embeddings) fields["hidden_size_per_layer_input"] = text(layer_embeddings->width);
    for (const auto& [name, value] : constants) fields[name] = shortest(double{value});
    return fields;
}

}  // namespace ringshard::model
