#include "read_rope.hpp"
#include "ringshard/base/shown.hpp"

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
          "beta_slow", "mscale", "mscale_all_dim", "truncate", "finetuned"}},
        {"longrope",
         RopeKind::longrope,
         {"factor", "original_max_position_embeddings", "attention_factor", "short_factor",
          "long_factor"}},
        {"proportional", RopeKind::proportional, {"factor"}}};
    return all;
}

const Kind* find_kind(ConfigReader& rope) {
    const char* const key = rope.has("rope_type") ? "rope_type" : "type";
    const json type = rope.part(key);
    if (type.is_null()) return &kinds().front();
    for (const Kind& kind : kinds())
        if (type == kind.name) return &kind;
    rope.complain(
        format_text("{} = {}: this program serves the positions \"default\", \"linear\", "
                    "\"llama3\", \"yarn\", \"longrope\" and \"proportional\"",
                    key, shown(type.dump())));
    return nullptr;
}

// Checks the part that applies, whose field is `name` of the reader.
void check_rotated_part(ConfigReader& config, const char* name, const RopeForm& form,
                        const RopeSpec& spec) {
    const int64_t width = spec.rotated_width(form.head_dim);
    const bool serves_odd = form.rotates_pairs && form.head_dim % 2 == 0 &&
                            spec.kind != RopeKind::yarn && spec.kind != RopeKind::longrope;
    if (form.may_be_partial && width % 2 != 0 && !serves_odd)
        config.complain(format_text(
            "{} = {}: {} elements of a head would rotate, and they must be even in number", name,
            spec.rotated_part, width));
    if (spec.rotated_part == 1 || (form.may_be_partial && spec.rotated_part < 1)) return;
    config.complain(format_text("{} = {}{}", name, shown(config.part(name).dump()),
                                form.may_be_partial
                                    ? ": must be at most 1"
                                    : ": whole heads rotate in this architecture; set it to 1"));
}

// Everything that would change the positions must be known. transformers ignores a plain value
// under another name; an object holds positions of its own for some of the layers.
void check_keys(ConfigReader& rope, const RopeForm& form, const Kind& kind) {
    for (const auto& [key, value] : rope.content().items()) {
        const bool is_general = key == "rope_type" || key == "type" || key == "rope_theta" ||
                                key == "partial_rotary_factor";
        if (value.is_null() || is_general || std::ranges::count(kind.keys, key) > 0 ||
            std::ranges::count(form.other_keys, key) > 0)
            continue;
        if (value.is_object())
            rope.complain(
                format_text("{}: positions that differ from layer to layer are not served", key));
        rope.complain(format_text(
            "{} = {}: rope_type \"{}\" does not use it, in transformers neither; remove it", key,
            shown(value.dump()), kind.name));
    }
}

double mscale(double factor, double weight) {
    return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

// null counts as false.
bool read_truncate(ConfigReader& rope, const RopeForm& form) {
    if (form.is_of_layers || !rope.content().contains("truncate")) return true;
    return rope.boolean("truncate", false);
}

void read_yarn(ConfigReader& rope, const RopeForm& form, RopeSpec& spec) {
    spec.fast_rotations = rope.number_above_0("beta_fast", 32);
    spec.slow_rotations = rope.number_above_0("beta_slow", 1);
    spec.rounds_dimensions = read_truncate(rope, form);
    const bool weighs = rope.has("mscale") && rope.has("mscale_all_dim") &&
                        rope.part("mscale") != 0.0 && rope.part("mscale_all_dim") != 0.0;
    spec.attention_scaling = mscale(spec.factor, 1);
    if (weighs)
        spec.attention_scaling = mscale(spec.factor, rope.number_above_0("mscale")) /
                                 mscale(spec.factor, rope.number_above_0("mscale_all_dim"));
    spec.attention_scaling = rope.number_above_0("attention_factor", spec.attention_scaling);
}

std::vector<double> read_factors(ConfigReader& rope, const char* name, int64_t count) {
    const json given = rope.part(name);
    const auto is_factor = [](const json& factor) {
        return factor.is_number() && factor.get<double>() > 0;
    };
    if (given.is_array() && std::ssize(given) == count && std::ranges::all_of(given, is_factor))
        return given.get<std::vector<double>>();
    rope.complain(format_text(
        "{}: must be a list of {} numbers above 0, one for each pair of elements that rotates",
        name, count));
    return std::vector<double>(static_cast<size_t>(count), 1.0);
}

void read_longrope(ConfigReader& rope, const RopeForm& form, RopeSpec& spec) {
    const int64_t pairs = spec.rotated_width(form.head_dim) / 2;
    spec.short_factors = read_factors(rope, "short_factor", pairs);
    spec.long_factors = read_factors(rope, "long_factor", pairs);
    spec.attention_scaling =
        spec.factor <= 1 ? 1.0
                         : std::sqrt(1 + std::log(spec.factor) / std::log(spec.original_positions));
    spec.attention_scaling = rope.number_above_0("attention_factor", spec.attention_scaling);
}

void read_llama3(ConfigReader& rope, RopeSpec& spec) {
    spec.low_frequency_factor = rope.number_above_0("low_freq_factor");
    spec.high_frequency_factor = rope.number_above_0("high_freq_factor");
    if (spec.high_frequency_factor <= spec.low_frequency_factor)
        rope.complain(format_text("high_freq_factor = {}: must be above low_freq_factor = {}",
                                  spec.high_frequency_factor, spec.low_frequency_factor));
}

void read_scaling(ConfigReader& rope, const RopeForm& form, int64_t original, RopeSpec& spec) {
    // Where the model has the field itself, transformers takes that one.
    spec.original_positions = static_cast<double>(
        original > 0 ? original
                     : rope.whole_number_or("original_max_position_embeddings", most_positions,
                                            form.max_positions));
    // Where yarn's factor is null, and where longrope has none, it is how much longer the context
    // has become.
    const bool tells_by_length = spec.kind == RopeKind::longrope ||
                                 (spec.kind == RopeKind::yarn && rope.content().contains("factor"));
    const double lengthening = static_cast<double>(form.max_positions) / spec.original_positions;
    if (spec.kind == RopeKind::proportional)
        spec.factor = rope.number_above_0("factor", 1);
    else
        spec.factor = tells_by_length ? rope.number_above_0("factor", lengthening)
                                      : rope.number_above_0("factor");
    if (spec.kind == RopeKind::yarn) read_yarn(rope, form, spec);
    if (spec.kind == RopeKind::longrope) read_longrope(rope, form, spec);
    if (spec.kind == RopeKind::llama3) read_llama3(rope, spec);
}

RopeSpec plain_rope(ConfigReader& config, const RopeForm& form) {
    RopeSpec spec;
    spec.is_interleaved = form.is_interleaved;
    spec.rotated_part = form.rotated_part;
    spec.theta = config.number_above_0(form.theta_name, form.theta);
    spec.rotated_part = config.number_above_0(form.part_name, spec.rotated_part);
    return spec;
}

// transformers reads nothing but alpha then.
bool stretches_theta(const ConfigReader& rope) {
    return rope.has("alpha") &&
           rope.part(rope.has("rope_type") ? "rope_type" : "type") == "dynamic";
}

// Reads an object of positions.
void read_positions(ConfigReader& config, const std::string& name, const json& content,
                    const RopeForm& form, bool is_of_layers, RopeSpec& spec) {
    if (content.is_null()) return check_rotated_part(config, form.part_name, form, spec);
    if (!content.is_object())
        return config.complain(
            format_text("{} = {}: must be an object", name, shown(content.dump())));
    ConfigReader rope(config.file(), content, name + ": ");
    spec.theta = rope.number_above_0("rope_theta", spec.theta);
    const bool has_part = rope.has("partial_rotary_factor");
    spec.rotated_part = rope.number_above_0("partial_rotary_factor", spec.rotated_part);
    if (form.knows_alpha && stretches_theta(rope)) {
        const auto width = static_cast<double>(form.head_dim);
        spec.theta *= std::pow(rope.number_above_0("alpha"), width / (width - 2));
    } else if (const Kind* const kind = find_kind(rope)) {
        spec.kind = kind->kind;
        check_keys(rope, form, *kind);
        // Positions of some layers know their own length alone.
        const int64_t original =
            is_of_layers ? 0
                         : config.whole_number_or("original_max_position_embeddings",
                                                  most_positions, form.original_positions);
        if (spec.kind != RopeKind::plain) read_scaling(rope, form, original, spec);
    }
    check_rotated_part(has_part ? rope : config,
                       has_part ? "partial_rotary_factor" : form.part_name, form, spec);
    config.complain(rope);
}

bool is_filled(const json& older) {
    return !older.is_null() && !(older.is_object() && older.empty());
}

}  // namespace

RopeSpec read_rope(ConfigReader& config, const RopeForm& form) {
    RopeSpec spec = plain_rope(config, form);
    // Where there are both, transformers takes the older one.
    const std::string name =
        is_filled(config.part("rope_scaling")) ? "rope_scaling" : "rope_parameters";
    const json given = config.part(name.c_str());
    read_positions(config, name, given.is_null() ? form.usual : given, form, false, spec);
    return spec;
}

std::vector<RopeSpec> read_ropes_by_layer(ConfigReader& config, const RopeForm& full,
                                          const RopeForm& sliding) {
    RopeSpec of_full = plain_rope(config, full);
    RopeSpec of_sliding = plain_rope(config, sliding);
    const json older = config.part("rope_scaling");
    const json both = config.part("rope_parameters");
    if (is_filled(older) && !both.is_null()) {
        config.complain("rope_scaling and rope_parameters: must not both be there");
    } else if (is_filled(older)) {
        // transformers begins with a rope_type here, so that "type" does not count.
        if (older.is_object() && older.contains("type") && !older.contains("rope_type"))
            config.complain("rope_scaling: type: transformers reads rope_type here; rename it");
        read_positions(config, "rope_scaling", older, full, true, of_full);
    } else if (both.is_object()) {
        for (const auto& [key, value] : both.items())
            if (key != "full_attention" && key != "sliding_attention")
                config.complain(
                    format_text("rope_parameters: {}: must be an object for each of "
                                "\"full_attention\" and \"sliding_attention\"",
                                key));
        const auto part = [&](const char* layers, RopeForm form, RopeSpec& spec) {
            form.is_of_layers = true;
            read_positions(config, format_text("rope_parameters: {}", layers),
                           both.value(layers, json()), form, true, spec);
        };
        part("full_attention", full, of_full);
        part("sliding_attention", sliding, of_sliding);
    } else if (!both.is_null()) {
        config.complain(format_text("rope_parameters = {}: must be an object", shown(both.dump())));
    }
    return {of_full, of_sliding};
}

}  // namespace ringshard::model
