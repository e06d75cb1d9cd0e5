#include "read_rope.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ringshard::model {

using nlohmann::json;

namespace {

constexpr int64_t most_positions = int64_t{1} << 40;

// The fields that a kind of positions may have.
struct Kind {
    const char* name;
    RopeKind kind;
    std::vector<std::string> keys;
};

const std::vector<Kind>& kinds() {
    static const std::vector<Kind> all{
        {"default", RopeKind::plain, {}},
        {"linear", RopeKind::linear, {"factor"}},
        {"llama3",
         RopeKind::llama3,
         {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}},
        {"yarn",
         RopeKind::yarn,
         {"factor", "original_max_position_embeddings", "attention_factor", "beta_fast",
          "beta_slow", "mscale", "mscale_all_dim", "truncate", "finetuned"}}};
    return all;
}

const Kind* find_kind(ConfigReader& rope) {
    const char* const key = rope.has("rope_type") ? "rope_type" : "type";
    const json type = rope.part(key);
    if (type.is_null()) return &kinds().front();
    for (const Kind& kind : kinds())
        if (type == kind.name) return &kind;
    rope.complain(concat(key, " = ", type.dump(),
                         ": this program knows the positions \"default\", \"linear\", \"llama3\" "
                         "and \"yarn\""));
    return nullptr;
}

bool turns_whole_heads(const ConfigReader& config) {
    return !config.has("partial_rotary_factor") || config.part("partial_rotary_factor") == 1.0;
}

void refuse_partial_rotation(ConfigReader& config) {
    config.complain(concat("partial_rotary_factor = ", config.part("partial_rotary_factor").dump(),
                           ": heads that rotate only in part are not served yet"));
}

// Everything that would change the positions must be known. transformers ignores a plain value
// under another name; an object holds positions of its own for some of the layers.
void check_keys(ConfigReader& rope, const Kind& kind) {
    for (const auto& [key, value] : rope.content().items()) {
        const bool is_general = key == "rope_type" || key == "type" || key == "rope_theta" ||
                                key == "partial_rotary_factor";
        if (value.is_null() || is_general || std::ranges::count(kind.keys, key) > 0) continue;
        if (value.is_object())
            rope.complain(
                concat(key, ": positions that differ from layer to layer are not served"));
        rope.complain(concat(key, " = ", value.dump(), ": rope_type \"", kind.name,
                             "\" does not use it, in transformers neither; remove it"));
    }
    if (!turns_whole_heads(rope)) refuse_partial_rotation(rope);
}

double mscale(double factor, double weight) {
    return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

void read_yarn(ConfigReader& rope, RopeSpec& spec) {
    spec.fast_rotations = rope.number_above_0("beta_fast", 32);
    spec.slow_rotations = rope.number_above_0("beta_slow", 1);
    spec.rounds_dimensions = rope.boolean("truncate", true);
    const bool weighs = rope.has("mscale") && rope.has("mscale_all_dim") &&
                        rope.part("mscale") != 0.0 && rope.part("mscale_all_dim") != 0.0;
    spec.attention_scaling = mscale(spec.factor, 1);
    if (weighs)
        spec.attention_scaling = mscale(spec.factor, rope.number_above_0("mscale")) /
                                 mscale(spec.factor, rope.number_above_0("mscale_all_dim"));
    spec.attention_scaling = rope.number_above_0("attention_factor", spec.attention_scaling);
}

void read_scaling(ConfigReader& rope, RopeSpec& spec, int64_t original, int64_t positions) {
    spec.original_positions = static_cast<double>(
        rope.whole_number_or("original_max_position_embeddings", most_positions, original));
    // Where yarn's factor is null, it is how much longer the context has become.
    const bool tells_by_length = spec.kind == RopeKind::yarn && rope.content().contains("factor");
    spec.factor = tells_by_length ? rope.number_above_0("factor", static_cast<double>(positions) /
                                                                      spec.original_positions)
                                  : rope.number_above_0("factor");
    if (spec.kind == RopeKind::yarn) read_yarn(rope, spec);
    if (spec.kind != RopeKind::llama3) return;
    spec.low_frequency_factor = rope.number_above_0("low_freq_factor");
    spec.high_frequency_factor = rope.number_above_0("high_freq_factor");
    if (spec.high_frequency_factor <= spec.low_frequency_factor)
        rope.complain(concat("high_freq_factor = ", spec.high_frequency_factor,
                             ": must be above low_freq_factor = ", spec.low_frequency_factor));
}

}  // namespace

RopeSpec read_rope(ConfigReader& config, int64_t max_positions) {
    RopeSpec spec;
    spec.theta = config.number_above_0("rope_theta", spec.theta);
    if (!turns_whole_heads(config)) refuse_partial_rotation(config);
    // Where there are both, transformers takes the older one.
    const json older = config.part("rope_scaling");
    const bool is_older = !older.is_null() && !(older.is_object() && older.empty());
    const std::string name = is_older ? "rope_scaling" : "rope_parameters";
    const json content = config.part(name.c_str());
    if (content.is_null()) return spec;
    if (!content.is_object()) {
        config.complain(concat(name, " = ", content.dump(), ": must be an object"));
        return spec;
    }
    ConfigReader rope(config.file(), content, name + ": ");
    spec.theta = rope.number_above_0("rope_theta", spec.theta);
    if (const Kind* const kind = find_kind(rope)) {
        spec.kind = kind->kind;
        check_keys(rope, *kind);
        const int64_t original = config.whole_number_or("original_max_position_embeddings",
                                                        most_positions, max_positions);
        if (spec.kind != RopeKind::plain) read_scaling(rope, spec, original, max_positions);
    }
    config.complain(rope);
    return spec;
}

}  // namespace ringshard::model
