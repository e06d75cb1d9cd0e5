"""Changes of a tiny config.json, one field each: what transformers' classes of decoders read, and fields of other families."""

from transformers.activations import ACT2FN
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

# Sizes, tokens and what transformers' models do not compute with.
NOT_CHANGED = {"model_type", "architectures", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
               "num_attention_heads", "max_position_embeddings", "pad_token_id", "bos_token_id", "eos_token_id", "use_cache",
               "cache_implementation", "layer_types", "rope_parameters", "rope_theta", "rope_scaling", "hidden_act", "hidden_activation",
               "id2label", "label2id", "problem_type", "chunk_size_feed_forward", "output_hidden_states", "return_dict",
               "output_attentions", "dtype", "is_encoder_decoder", "transformers_version", "base_model_ep_plan", "base_model_pp_plan",
               "base_model_tp_plan", "quantization_config", "num_key_value_heads", "is_decoder"}
WHOLE = {"head_dim": [8, 24], "sliding_window": [5, None], "max_window_layers": [0, 2], "no_rope_layer_interval": [2],
         "query_pre_attn_scalar": [10], "sliding_window_pattern": [2, 3], "pretraining_tp": [2], "num_key_value_heads": [1, 4, None],
         "original_max_position_embeddings": [16], "n_group": [2]}
FACTORS = [1.0 + 0.1 * i for i in range(8)]
ROPES = [{"rope_type": "linear", "factor": 4.0}, {"rope_type": "dynamic", "factor": 4.0},
         {"rope_type": "dynamic", "alpha": 50.0, "factor": 1.0},
         {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
         {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 16.0, "attention_factor": 0.8},
         {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
         {"rope_type": "longrope", "short_factor": FACTORS, "long_factor": FACTORS[::-1], "original_max_position_embeddings": 16},
         {"rope_type": "proportional", "factor": 2.0}, {"rope_type": "unheard-of"},
         {"rope_type": "default", "partial_rotary_factor": 0.5}, {"rope_type": "default", "rope_theta": 500.0}]


def values_of(name, value):
    """Values for a field that has this one, each of which a model computes otherwise with, if it reads the field."""
    if name in WHOLE:
        return [other for other in WHOLE[name] if other != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return [0.1 if "dropout" in name or "pdrop" in name else 1e-2 if "eps" in name else value * 1.7 if value else 0.3]
    if value is None:
        return [True, 0.3]
    return []


def own_changes(content):
    """Of the fields of its class: [(field, value)]."""
    changes = [(name, other) for name in content if name not in NOT_CHANGED for other in values_of(name, content[name])]
    changes += [("num_key_value_heads", other) for other in values_of("num_key_value_heads", content.get("num_key_value_heads", 4))]
    for name in ("hidden_act", "hidden_activation"):
        if name in content:
            changes += [(name, act) for act in ACT2FN if act != content[name]]
    if isinstance(content.get("rope_parameters"), dict) and "full_attention" in content["rope_parameters"]:
        for rope in ROPES:
            for kind, now in content["rope_parameters"].items():
                changes.append(("rope_parameters", {**content["rope_parameters"], kind: {"rope_theta": now["rope_theta"], **rope}}))
    elif "rope_parameters" in content:
        changes += [("rope_parameters", {"rope_theta": 1000.0, **rope}) for rope in ROPES]
    if "layer_types" in content:
        layers = len(content["layer_types"] or [0] * 4)
        for types in (["full_attention", "sliding_attention"], ["full_attention"], ["sliding_attention"], ["chunked_attention"],
                      ["linear_attention"]):
            changes.append(("layer_types", (types * layers)[:layers]))
    return changes


def foreign_changes(content, families):
    """Of fields that only classes of other families have: transformers keeps them, and computes without them."""
    own = set(content) | {"rope_theta", "rope_scaling"}
    changes = {}
    for family in families:
        for name, field in sorted(CONFIG_MAPPING[family].__dataclass_fields__.items()):
            if name in own or name in NOT_CHANGED or name.startswith("_") or name in changes:
                continue
            values = values_of(name, None if field.default.__class__.__name__ == "_MISSING_TYPE" else field.default)
            if values:
                changes[name] = values[0]
    return list(changes.items())


def windows_in_use(content):
    """What use_sliding_window turns on: [fields]."""
    if "sliding_window" not in content:
        return []
    kinds = (["full_attention", "sliding_attention"] * len(content.get("layer_types") or [0] * 4))[:content.get("num_hidden_layers")]
    return [{"use_sliding_window": True, "sliding_window": 5, **more} for more in ({}, {"max_window_layers": 0}, {"max_window_layers": 1},
                                                                                  {"layer_types": kinds})]


def older_ropes(content):
    """Positions as older files have them, beside rope_parameters or in their place: [fields]."""
    if "rope_parameters" not in content:
        return []
    older = [{}, {"rope_theta": 777.0}, {"rope_theta": 777.0, "rope_scaling": None}, {"rope_theta": 777.0, "rope_scaling": {}},
             {"partial_rotary_factor": 0.5}, {"rotary_pct": 0.5, "rotary_emb_base": 777.0}, {"rope_local_base_freq": 333.0}]
    for rope in ROPES:
        names = {("type" if name == "rope_type" else name): value for name, value in rope.items()}
        older += [{"rope_theta": 777.0, "rope_scaling": rope}, {"rope_theta": 777.0, "rope_scaling": names}]
    beside = [{"rope_theta": 777.0}, {"partial_rotary_factor": 0.5}, {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}]
    return [{"rope_parameters": None, **fields} for fields in older] + beside


def left_out(content):
    """Fields that config.json may leave out: the class has a default."""
    sizes = ("model_type", "architectures", "vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size", "head_dim",
             "num_attention_heads", "num_key_value_heads", "dtype", "text_config", "vision_config")
    return [name for name in content if name not in sizes]


def changes_of_one(content, families):
    """[(names of the fields, the changed content)], each with one change."""
    fields = [{name: value} for name, value in own_changes(content) + foreign_changes(content, families)]
    fields += windows_in_use(content) + older_ropes(content)
    changes = [(set(change), {**content, **change}) for change in fields]
    return changes + [({name}, {other: value for other, value in content.items() if other != name}) for name in left_out(content)]


def all_changes(content, families):
    """Of a wrapped model those of its text model too."""
    text = content.get("text_config")
    of_text = changes_of_one(text, families) if text else []
    return changes_of_one(content, families) + [(names, {**content, "text_config": changed}) for names, changed in of_text]
