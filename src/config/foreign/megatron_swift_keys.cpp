#include "megatron_swift_keys.hpp"

#include "reasons.hpp"

namespace ringshard::config {

namespace {

using enum KeyMeaning;

constexpr std::string_view no_checkpoint_of_theirs =
    "a checkpoint holds all state, and Megatron's own checkpoints are not read";
constexpr std::string_view recomputes = "activation_policy chooses the tensors that are kept";

// Keys of `megatron sft` alone.
constexpr ForeignKey megatron_swift_list[] = {
    {"mcore_model", refused, "give the model in the form of Hugging Face"},
    {"mcore_adapter", refused, "give the adapter in the form of PEFT"},
    {"load", refused, "give the model in the form of Hugging Face: model"},
    {"load_safetensors", idle, "models are read as safetensors"},
    {"save_safetensors", idle, "models are written as safetensors"},
    {"save_missing_weights", idle, "models are written whole"},
    {"bridge_backend", idle, reasons::model_code},
    {"language_model_only", idle, "the language model is what is trained"},
    {"finetune", idle, "a run begins from a model and resumes from its own checkpoints"},
    {"no_load_optim", idle, no_checkpoint_of_theirs},
    {"no_load_rng", idle, no_checkpoint_of_theirs},
    {"no_save_optim", idle, no_checkpoint_of_theirs},
    {"no_save_rng", idle, no_checkpoint_of_theirs},
    {"perform_initialization", idle, no_checkpoint_of_theirs},
    {"use_cpu_initialization", idle, no_checkpoint_of_theirs},
    {"async_save", idle, "checkpoints are written while training goes on"},
    {"use_persistent_ckpt_worker", idle, "checkpoints are written while training goes on"},
    {"dist_ckpt_*", idle, no_checkpoint_of_theirs},
    {"vit_*", idle, "parts for images are passed through unchanged"},
    {"aligner_lr", idle, "parts for images are passed through unchanged"},
    {"data_sharding", idle, reasons::prefetch},
    {"mlp_padding_free", idle, reasons::padding},
    {"torch_dtype", idle, "mixed_precision says it"},

    {"micro_batch_size", sets, "per_device_train_batch_size"},
    {"global_batch_size", sets, "train_batch_size"},
    {"train_iters", sets, "max_steps"},
    {"num_train_epochs", sets, "num_train_epochs"},
    {"lr", sets, "learning_rate"},
    {"min_lr", read},
    {"lr_decay_style", read},
    {"lr_decay_iters", refused, "the rate falls up to the last step"},
    {"lr_warmup_fraction", sets, "warmup_steps"},
    {"lr_warmup_iters", sets, "warmup_steps"},
    {"lr_warmup_init", refused, "the warm-up begins at 0"},
    {"clip_grad", sets, "max_grad_norm"},
    {"adam_eps", sets, "adam_epsilon"},
    {"optimizer", sets, "optim", "adam=adamw_torch"},
    {"use_precision_aware_optimizer", idle, "optimizer_state_dtype is the type of the moments"},
    {"exp_avg_dtype", sets, "optimizer_state_dtype"},
    {"exp_avg_sq_dtype", sets, "optimizer_state_dtype"},
    {"main_grads_dtype", idle, "gradients are summed in reduce_dtype and kept in fp32"},
    {"main_params_dtype", idle, "masters are fp32"},
    {"optimizer_cpu_offload", sets, "offload_optimizer_device", "true=cpu;false=none"},
    {"optimizer_offload_fraction", idle, "all of the optimizer's state is offloaded"},
    {"optimizer_cuda_graph", idle, reasons::kernels},
    {"weight_decay_incr_style", refused, "the decay stays the same", "constant"},
    {"moe_router_dtype", idle, "routers are computed in fp32"},
    {"moe_aux_loss_coeff", sets, "router_aux_loss_coef"},
    {"moe_z_loss_coeff", refused, "router_aux_loss_coef is the one loss of routers"},
    {"moe_expert_capacity_factor", refused,
     "no token is dropped: an expert takes all tokens that are routed to it; leave it out"},
    {"moe_*", idle, reasons::kernels},
    {"mtp_num_layers", refused, "heads of multi-token prediction are not trained"},
    {"mtp_*", idle, "it concerns multi-token prediction"},
    {"recompute_granularity", read},
    {"recompute_*", idle, recomputes},
    {"masked_softmax_fusion", idle, reasons::kernels},
    {"bias_*", idle, reasons::kernels},
    {"apply_rope_fusion", idle, reasons::kernels},
    {"apply_query_key_layer_scaling", idle, reasons::kernels},
    {"apply_dsa_kernel_fusion", idle, reasons::kernels},
    {"gradient_accumulation_fusion", idle, reasons::kernels},
    {"cross_entropy_*", idle, reasons::kernels},
    {"attention_backend", idle, reasons::attention},
    {"attention_softmax_in_fp32", idle, reasons::attention},
    {"calculate_per_token_loss", idle, "the loss is the mean over all target tokens of a step"},
    {"accumulate_allreduce_grads_in_fp32", idle, "gradients are kept in fp32"},
    {"linear_decoupled_in_proj", idle, reasons::kernels},
    {"manual_gc*", idle, "memory is planned, not collected"},
    {"te_rng_tracker", idle, reasons::kernels},
    {"ddp_backend", idle, reasons::layout},
    {"tensor_model_parallel_size", sets, "tp_size", "1="},
    {"pipeline_model_parallel_size", sets, "pp_size", "1="},
    {"virtual_pipeline_model_parallel_size", idle, reasons::shards},
    {"pipeline_model_parallel_layout", idle, reasons::shards},
    {"decoder_first_pipeline_num_layers", idle, reasons::shards},
    {"decoder_last_pipeline_num_layers", idle, reasons::shards},
    {"account_for_*", idle, reasons::shards},
    {"microbatch_group_size_per_vp_stage", idle, reasons::shards},
    {"expert_model_parallel_size", sets, "ep_size"},
    {"expert_tensor_parallel_size", idle, reasons::shards},
    {"context_parallel_size", sets, "cp_size"},
    {"cp_comm_type", idle, "ring attention is built in"},
    {"cp_partition_mode", idle, "ring attention is built in"},
    {"sequence_parallel", idle, reasons::layout},
    {"use_distributed_optimizer", idle, reasons::layout},
    {"use_megatron_fsdp", idle, reasons::layout},
    {"data_parallel_sharding_strategy", idle, reasons::layout},
    {"overlap_*", idle, reasons::layout},
    {"batch_p2p_comm", idle, reasons::layout},
    {"align_*", idle, reasons::layout},
    {"nccl_*", idle, reasons::layout},
    {"tp_comm_overlap", idle, reasons::layout},
    {"fp8_format", read},
    {"fp8_recipe", read},
    {"fp8_param_gather", idle, "weights are gathered in bf16"},
    {"fp8_amax_*", idle, "it concerns fp8_recipe delayed"},
    {"fp4_*", refused, reasons::no_qat},
    {"eval_iters", read},
    {"tensorboard_*", idle, "report_to tensorboard writes into output_dir"},
    {"log_*", idle, "metrics.jsonl has every number of every logged step"},
};

constexpr ForeignDefault megatron_swift_own[] = {
    {"max_length", "null"},
    {"truncation_mode", "drop"},
    {"per_device_train_batch_size", "1"},
    {"train_batch_size", "16"},
    {"lr_scheduler_type", "cosine"},
    {"weight_decay", "0.1"},
    {"adam_beta2", "0.95"},
    {"logging_steps", "5"},
    {"mixed_precision", "bf16"},
    {"report_to", "tensorboard"},
    {"router_aux_loss_coef", "0"},
    {"output_dir", "megatron_output"},
    {"distributed_type", "FSDP"},
};

}  // namespace

std::span<const ForeignKey> megatron_swift_keys() { return megatron_swift_list; }
std::span<const ForeignDefault> megatron_swift_defaults() { return megatron_swift_own; }

}  // namespace ringshard::config
