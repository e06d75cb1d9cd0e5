#include "../option_group.hpp"
#include "ringshard/config/config.hpp"

namespace ringshard::config {

void add_model_options(OptionTable& table) {
    OptionGroup group(table, "Model", &Config::model);
    group.serve("model_name_or_path", &ModelSettings::model_name_or_path,
                "Folder of a Hugging Face model, or its hub name if it is in the local HF cache.");
    group.serve("model_revision", &ModelSettings::model_revision,
                "Branch, tag or commit to look for in the HF cache.");
    group
        .serve("dtype", &ModelSettings::dtype,
               "Type in which the finished model is written: float32, bfloat16, or auto: the type "
               "that "
               "the model's config.json names, if it is one of them, else float32.")
        .but_not({"float16"}, "models are written as float32 or bfloat16; masters are fp32")
        .takes({"null"}, "auto", "the model is written in the type of its files, as with auto");
    group.serve(
        "chat_template_path", &ModelSettings::chat_template_path,
        "A .jinja file, or the folder of a tokenizer whose chat template is taken, with its "
        "added tokens and its end of a sequence.");
    group.serve("chat_template", &ModelSettings::chat_template,
                "The chat template itself, as Jinja, in the place of the tokenizer's own.");
    group
        .serve_json("config_overrides", &ModelSettings::config_overrides,
                    "Fields of config.json in the place of the model's own, such as "
                    "{\"rms_norm_eps\": 1e-6}, also in the config.json of the result; "
                    "model_init_kwargs may hold them under their own names.",
                    KeyOrder::of_text)
        .shapes_loss_if_set();
    group
        .serve_json("rope_parameters", &ModelSettings::rope_parameters,
                    "The field rope_parameters of config.json, in the place of the model's own, "
                    "such as {\"rope_type\": \"yarn\", \"factor\": 4.0, "
                    "\"original_max_position_embeddings\": 32768}.",
                    KeyOrder::of_text)
        .shapes_loss_if_set();
    group
        .serve("max_position_embeddings", &ModelSettings::max_position_embeddings,
               "The field max_position_embeddings of config.json, in the place of the model's own.")
        .at_least(1)
        .shapes_loss_if_set();
    group
        .serve("eos_token", &ModelSettings::eos_token,
               "Token that ends a text, if it is not the tokenizer's own.")
        .shapes_loss();
    group
        .serve("added_tokens", &ModelSettings::added_tokens,
               "Tokens that the tokenizer lacks, as a,b or a JSON list; the embedding grows to a "
               "multiple of 64 rows where it has none for them.")
        .shapes_loss_if_set();
    group
        .serve("freeze", &ModelSettings::freeze,
               "Regular expression of Python; tensors in whose Hugging Face name it is found "
               "are not trained, as layers[.][0-3][.] or embed_tokens or norm.")
        .shapes_loss_if_set();
    group
        .serve("train_only", &ModelSettings::train_only,
               "Regular expression; tensors in whose name it is not found are not trained.")
        .shapes_loss_if_set();
    group
        .serve("router_aux_loss_coef", &ModelSettings::router_aux_loss_coef,
               "Share of the loss that balances experts, in place of the model's own; 0 turns it "
               "off.")
        .shapes_loss_if_set()
        .at_least(0);
    group.serve("config_json", &ModelSettings::config_json,
                "For init: the config.json of the model to make.");
    group.serve("checkpoint", &ModelSettings::checkpoint,
                "For export: a folder checkpoint-<step>, or the output_dir of a run, whose newest "
                "good checkpoint is taken. For verify: the folder of a model or checkpoint.");
    group.serve("max_shard_size", &ModelSettings::max_shard_size,
                "For export: the most bytes of weights in one file, as 5GB or 200MB.");
    group
        .block("model_init_kwargs",
               "Settings of the model as JSON, under their usual names, and fields of config.json.",
               {}, {{"revision", "model_revision"}})
        .collects = "config_overrides";

    group.older("torch_dtype", "dtype");

    const std::string attention = "the built-in exact attention is used, whatever kernel is named";
    group.accept("attn_implementation", Shape::word, "null", attention)
        .but_not(
            {"flex_attention", "paged_attention"},
            "its results differ from causal attention only if a mask is programmed, which has no "
            "place here; leave attn_implementation out");
    group.accept("use_flash_attention_2", Shape::boolean, "false", attention);
    group.accept("trust_remote_code", Shape::boolean, "false",
                 "no Python is run; the architectures are built in");
    group.accept("device_map", Shape::word, "null", "every rank loads its own shards");
    group.accept("low_cpu_mem_usage", Shape::boolean, "null", "every rank loads its own shards");
    group.accept("use_cache", Shape::boolean, "false",
                 "training keeps no cache of keys and values");
    group.accept("output_router_logits", Shape::boolean, "null",
                 "the loss that balances experts is on where router_aux_loss_coef is not 0, as in "
                 "TRL");
    group.accept("pad_token", Shape::word, "null", "padding never enters the computation");
}

}  // namespace ringshard::config
