#include "swift_keys.hpp"

#include "reasons.hpp"

namespace ringshard::config {

namespace {

using enum KeyMeaning;

// Keys that `swift sft` and `megatron sft` share.
constexpr ForeignKey swift_shared_list[] = {
    {"model", sets, "model_name_or_path"},
    {"model_type", idle, reasons::model_code},
    {"model_kwargs", refused, "model_init_kwargs has fields of config.json"},
    {"task_type", read},
    {"num_labels", read},
    {"problem_type", read},
    {"attn_impl", idle, reasons::attention},
    {"new_special_tokens", read},
    {"rope_scaling", read},
    {"max_model_len", sets, "max_position_embeddings"},
    {"tuner_type", read},
    {"train_type", read},
    {"adapters", read},
    {"freeze_parameters", refused, "freeze has a regular expression of names"},
    {"freeze_parameters_regex", sets, "freeze"},
    {"freeze_parameters_ratio", refused, "freeze has a regular expression of names"},
    {"trainable_parameters", refused, "train_only has a regular expression of names"},
    {"trainable_parameters_regex", sets, "train_only"},
    {"freeze_llm", refused, "the language model is what is trained"},
    {"freeze_vit", idle, "parts for images and audio are passed through unchanged"},
    {"freeze_aligner", idle, "parts for images and audio are passed through unchanged"},
    {"target_modules", read},
    {"target_regex", read},
    {"modules_to_save", read},
    {"lora_rank", read},
    {"lora_alpha", read},
    {"lora_dropout", read},
    {"lora_bias", sets, "bias"},
    {"lora_dtype", idle, "adapters are fp32, and products are in mixed_precision"},
    {"use_rslora", read},
    {"dataset", read},
    {"val_dataset", read},
    {"cached_dataset", read},
    {"cached_val_dataset", read},
    {"to_cached_dataset", idle, reasons::prepared},
    {"custom_dataset_info", read},
    {"split_dataset_ratio", read},
    {"columns", read},
    {"interleave_prob", read},
    {"stopping_strategy", read},
    {"model_name", read},
    {"model_author", read},
    {"load_from_cache_file", idle, reasons::prepared},
    {"dataset_shuffle", idle, "rows are visited in a new order in every epoch"},
    {"train_dataloader_shuffle", sets, "train_sampling_strategy", "true=random;false=sequential"},
    {"shuffle_buffer_size", idle, reasons::prepared},
    {"use_hf", idle, "models and data are read from disk"},
    {"hub_token", idle, "models and data are read from disk"},
    {"lazy_tokenize", idle, reasons::prepared},
    {"template", read},
    {"system", read},
    {"truncation_strategy", read},
    {"agent_template", sets, "agent_template"},
    {"use_chat_template", read},
    {"padding_free", idle, reasons::padding},
    {"loss_scale", read},
    {"response_prefix", refused, "put it into the answers"},
    {"add_non_thinking_prefix", read},
    {"max_pixels", idle, "rows without images are not concerned"},
    {"external_plugins", refused, reasons::no_plugins},
    {"loss_type", refused, "loss_type has nll and dft", "loss_scale;cross_entropy"},
    {"enable_dft_loss", sets, "loss_type", "true=dft;false=nll"},
    {"enable_channel_loss", idle, "one loss is logged"},
    {"max_epochs", sets, "num_train_epochs"},
    {"eval_steps", read},
    {"eval_strategy", read},
    {"sequence_parallel_size", sets, "sp_size"},
    {"check_model", idle, "models are read from disk"},
    {"add_version", idle, "output_dir is the folder of the run"},
    {"save_total_limit", read},
    {"merge_lora", read},
    {"swanlab_*", idle, reasons::trackers},
    {"wandb_*", idle, reasons::trackers},
    {"ENV*", idle, "environment variables of other programs"},
    {"use_ray", idle, reasons::launch},
    {"device_groups*", idle, reasons::launch},
    {"rlhf_type", refused, reasons::fine_tuning_only},
    {"reward_*", refused, reasons::fine_tuning_only},
    {"sampler_type", refused, "sampling makes data, and trains nothing"},
    {"sampler_engine", refused, "sampling makes data, and trains nothing"},
};

}  // namespace

std::span<const ForeignKey> swift_shared_keys() { return swift_shared_list; }

}  // namespace ringshard::config
