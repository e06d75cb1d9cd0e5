#include "ms_swift_keys.hpp"

#include "reasons.hpp"

namespace ringshard::config {

namespace {

using enum KeyMeaning;

constexpr std::string_view no_other_optimizers = "use optim adafactor, adamw_8bit or muon";
constexpr std::string_view own_rate = "all weights have one learning rate";

// Keys that are settings under the same name here do not stand in this table.
constexpr ForeignKey ms_swift_list[] = {
    {"torch_dtype", read},
    {"rlhf_type", read},
    {"beta", read},
    {"loss_type", read},
    {"label_smoothing", read},
    {"center_rewards_coefficient", read},
    {"cpo_alpha", read},
    {"simpo_gamma", read},
    {"desirable_weight", read},
    {"undesirable_weight", read},
    {"rpo_alpha", read},
    {"ref_model*", refused, "the reference is the model at the start of the run"},
    {"experts_impl", idle, reasons::kernels},
    {"max_memory", idle, "every rank loads its own shards"},
    {"local_repo_path", idle, reasons::model_code},
    {"init_strategy", refused, "trainer init makes a model with new weights"},
    {"tuner_backend", idle, reasons::kernels},
    {"vit_gradient_checkpointing", idle, "parts for images are not computed"},
    {"vit_lr", refused, own_rate},
    {"aligner_lr", refused, own_rate},
    {"target_parameters", read},
    {"lorap_lr_ratio", read},
    {"use_dora", read},
    {"init_weights", read},
    {"lora_ga_*", refused, "use init_weights pissa or olora"},
    {"fourier_*", refused, "lora and full are served"},
    {"boft_*", refused, "lora and full are served"},
    {"vera_*", refused, "lora and full are served"},
    {"adapter_act", refused, "lora and full are served"},
    {"adapter_length", refused, "lora and full are served"},
    {"adalora_*", refused, "lora and full are served"},
    {"llamapro_*", refused, "blocks are not added; train_only names the weights to train"},
    {"reft_*", refused, "lora and full are served"},
    {"use_galore", refused, no_other_optimizers},
    {"galore_*", idle, "it concerns GaLore"},
    {"lisa_*", refused, "the same weights are trained in all steps"},
    {"quant_bits", read},
    {"quant_method", read},
    {"bnb_4bit_compute_dtype", idle, "mixed_precision is the type of products"},
    {"bnb_4bit_use_double_quant", read},
    {"hqq_axis", idle, "it concerns HQQ"},
    {"val_dataset_shuffle", idle, "the loss of an evaluation does not depend on the order"},
    {"download_mode", idle, "models and data are read from disk"},
    {"strict", idle, "skip_bad_rows says how many rows may be left out"},
    {"disable_auto_column_mapping", idle, "columns are recognised by their names"},
    {"template_backend", idle, "the chat template is Jinja"},
    {"padding_side", idle, reasons::padding},
    {"is_binary_loss_scale", idle, "weights of messages are numbers"},
    {"enable_thinking", idle, "the chat template and the column chat_template_kwargs say it"},
    {"preserve_thinking", idle, "the chat template says it"},
    {"disable_ignore_empty_think", idle, "all words of the assistant are learned"},
    {"norm_bbox", idle, "rows without images are not concerned"},
    {"custom_register_path", refused, reasons::no_plugins},
    {"callbacks", refused, reasons::no_plugins},
    {"eval_metric", refused, "evaluations have loss and accuracy"},
    {"predict_with_generate", refused, "eval_prompts generates texts at every evaluation"},
    {"eval_use_evalscope", refused, "export the model and measure it with a harness"},
    {"eval_dataset", refused, "export the model and measure it with a harness"},
    {"eval_dataset_args", refused, "export the model and measure it with a harness"},
    {"eval_limit", idle, "it concerns EvalScope"},
    {"eval_generation_config", idle, "it concerns EvalScope"},
    {"extra_eval_args", idle, "it concerns EvalScope"},
    {"acc_strategy", idle, "every evaluation has the accuracy of the tokens"},
    {"neftune_noise_alpha", sets, "neftune_noise_alpha"},
    {"early_stop_interval", read},
    {"optimizer", read},
    {"optim_args", read},
    {"deepspeed", read},
    {"deepspeed_autotp_size", sets, "tp_size", "1="},
    {"zero_hpz_partition_size", refused, "use FSDP with HYBRID_SHARD, or dp_shard_size"},
    {"fsdp", read},
    {"ds3_gather_for_generation", idle, "it concerns generation"},
    {"safe_serialization", idle, "models are written as safetensors"},
    {"load_args", idle, "settings come from the command"},
    {"resume_only_model", refused, "model_name_or_path names a folder to begin from"},
    {"create_checkpoint_symlink", idle, "the file latest names the newest checkpoint"},
    {"use_logits_to_keep", idle, "logits are computed in tiles"},
    {"use_flash_ckpt", idle, "checkpoints are written while training goes on"},
    {"max_new_tokens", idle, "it concerns generation"},
    {"temperature", idle, "it concerns generation"},
};

constexpr ForeignDefault ms_swift_own[] = {
    {"max_length", "null"},
    {"truncation_mode", "drop"},
    {"per_device_train_batch_size", "1"},
    {"per_device_eval_batch_size", "1"},
    {"lr_scheduler_type", "cosine"},
    {"weight_decay", "0.1"},
    {"adam_beta2", "0.95"},
    {"logging_steps", "5"},
    {"logging_first_step", "true"},
    {"mixed_precision", "bf16"},
    {"report_to", "tensorboard"},
    {"router_aux_loss_coef", "0"},
    {"use_bnb_nested_quant", "true"},
    {"output_dir", "output"},
};

}  // namespace

std::span<const ForeignKey> ms_swift_keys() { return ms_swift_list; }
std::span<const ForeignDefault> ms_swift_defaults() { return ms_swift_own; }

}  // namespace ringshard::config
