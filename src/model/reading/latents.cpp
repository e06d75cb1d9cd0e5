#include "common.hpp"

#include <algorithm>
#include <cmath>

#include "ringshard/base/shown.hpp"

namespace ringshard::model {

using nlohmann::json;

namespace {

LatentSpec read_latent(ConfigReader& config, const LatentDefaults& defaults) {
    LatentSpec latent = defaults.latent;
    latent.norm = {.epsilon = 1e-6};
    latent.rank = config.whole_number_or("kv_lora_rank", widest, latent.rank);
    if (config.content().contains("q_lora_rank") && !config.has("q_lora_rank"))
        latent.query_rank = 0;
    else if (latent.query_rank > 0 || config.has("q_lora_rank"))
        latent.query_rank = config.whole_number_or("q_lora_rank", widest, latent.query_rank);
    latent.rotated = config.whole_number_or("qk_rope_head_dim", widest, latent.rotated);
    latent.value_dim = config.whole_number_or("v_head_dim", widest, latent.value_dim);
    latent.key_dim =
        latent.rotated + config.whole_number_or("qk_nope_head_dim", widest, defaults.plain);
    if (latent.rotated % 2 != 0)
        config.complain(format_text("qk_rope_head_dim = {}: must be even", latent.rotated));
    if (const json head_dim = config.part("head_dim");
        !defaults.ignores_head_dim && !head_dim.is_null() && head_dim != latent.rotated)
        config.complain(format_text("head_dim = {}: must be qk_rope_head_dim = {}, or left out",
                                    shown(head_dim.dump()), latent.rotated));
    return latent;
}

// Where YaRN names mscale_all_dim, the scores grow with the square of its scale.
double yarn_scale(ConfigReader& config, const RopeSpec& rope) {
    if (rope.kind != RopeKind::yarn) return 1;
    const json older = config.part("rope_scaling");  // an empty one counts for nothing
    const json positions =
        older.is_null() || older.empty() ? config.part("rope_parameters") : older;
    const json weight = positions.value("mscale_all_dim", json());
    if (!weight.is_number() || weight == 0 || rope.factor <= 1) return 1;
    const double scale = 0.1 * weight.get<double>() * std::log(rope.factor) + 1;
    return scale * scale;
}

}  // namespace

ModelSpec read_latent_model(ConfigReader& config, const LatentDefaults& defaults) {
    LatentSpec latent = read_latent(config, defaults);
    Defaults plain = defaults.model;
    plain.has_ropes_by_layer = true;
    plain.head_dim = latent.rotated;
    ModelSpec spec = read_plain_model(config, plain);
    spec.ignores_further_blocks = defaults.ignores_further_blocks;
    read_attention_bias(config, spec);
    for (const char* const name : {"sliding_window", "use_sliding_window"})
        if (config.has(name) && config.part(name) != false)
            config.complain(format_text("{} = {}: windows over latents are not served; remove it",
                                        name, shown(config.part(name).dump())));
    const attention::HeadCounts heads = spec.heads();
    if (heads.key_heads != heads.query_heads)
        config.complain(format_text(
            "num_key_value_heads = {}: every head has keys of its own in a model with latents; it "
            "must be num_attention_heads = {}",
            heads.key_heads, heads.query_heads));
    latent.heads = {heads.query_heads, heads.query_heads,
                    std::max(latent.key_dim, latent.value_dim)};
    latent.scores.scale = 1 / std::sqrt(static_cast<double>(latent.key_dim));
    if (!defaults.rotates) latent.rope.reset();
    if (defaults.rotates) {
        RopeForm form = plain.rope;
        form.head_dim = latent.rotated;
        form.max_positions = spec.max_positions;
        spec.ropes = {read_rope(config, form)};
        spec.ropes.front().rotated_elements = latent.rotated;
        latent.scores.scale =
            yarn_scale(config, spec.ropes.front()) / std::sqrt(static_cast<double>(latent.key_dim));
    }
    for (BlockSpec& block : spec.blocks) {
        latent.has_bias = block.attention().has_bias;
        latent.has_out_bias = block.attention().has_out_bias;
        block.mixer().part = latent;
    }
    return spec;
}

}  // namespace ringshard::model
