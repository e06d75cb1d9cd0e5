#include "ringshard/config/deepspeed_fields.hpp"

#include <algorithm>
#include <vector>

#include "ringshard/base/text.hpp"

namespace ringshard::config {

namespace {

constexpr std::string_view buckets = "a block's gradients and weights are sent as one buffer each";
constexpr std::string_view buffers = "offloading plans its own buffers";
constexpr std::string_view whole = "a checkpoint always holds whole tensors";
constexpr std::string_view metrics = "rank 0 writes metrics.jsonl and a line per logged step";
constexpr std::string_view for_fp16 = "it concerns fp16";
constexpr std::string_view no_trackers =
    "give report_to instead; metrics are in output_dir/metrics.jsonl, and in the files of trackers "
    "that report_to names";
constexpr std::string_view only_adamw = "use type AdamW";
constexpr std::string_view no_quantised =
    "quantised weights and messages are not served; reduce_dtype bf16 halves what gradients send";
constexpr std::string_view no_hierarchy =
    "use FSDP with HYBRID_SHARD, or dp_shard_size, to keep a copy of the weights in each group";
constexpr std::string_view no_change_of_data = "rows are taken in TRL's order";
constexpr std::string_view no_graph = "there is no graph to compile";
constexpr std::string_view passes_are_layouts =
    "autosp is Ulysses, whose ranks sequence_parallel_size counts (sp_size), and the ranks of "
    "autotp "
    "shard the model";
constexpr std::string_view in_its_step =
    "optimizer state is updated in the step that it belongs to";
constexpr std::string_view fp32_masters = "masters and gradients are fp32; take it out";
constexpr std::string_view bf16_moments = "use optimizer_state_dtype bf16";
constexpr std::string_view on_nan_says = "on_nan says what happens to numbers that are not finite";
constexpr std::string_view no_fp16 = "fp16 needs loss scaling, which is not served; use bf16";
constexpr std::string_view bf16_instead = "use bf16, which computes in bf16 with fp32 masters";
constexpr std::string_view fp32_sums = "gradients are accumulated in fp32";
constexpr std::string_view own_types = "mixed_precision says it; buffers and masters are fp32";
constexpr std::string_view own_kernel = "the optimizer is the program's own kernel";
constexpr std::string_view divided_once =
    "it is the sum of gradients that is divided, once, in fp32";
constexpr std::string_view one_mean = "the gradient is that of the mean over all target tokens";
constexpr std::string_view last_is_known = "the end of the last micro-batch is known";
constexpr std::string_view own_optimizer = "the optimizer is the program's own";
constexpr std::string_view no_foreign_checkpoints =
    "DeepSpeed's checkpoints are not read; train from the model folder that "
    "zero_to_fp32.py writes";
constexpr std::string_view recomputing =
    "gradient_checkpointing and activation_policy choose the tensors that are recomputed";
constexpr std::string_view settings_say_it = "dataloader_drop_last of the settings says it";
constexpr std::string_view read_from_model = "it is read from the model's config.json";
constexpr std::string_view no_pipeline = "the ranks of a pipeline shard the model";
constexpr std::string_view fixed_batch = "the batch size shapes the result; give train_batch_size";
constexpr std::string_view trainer_plan_suggest = "`trainer plan --suggest` looks for a layout";
constexpr std::string_view experts_are_known = "the architecture says which layers are experts";
constexpr std::string_view this_program_trains = "this program trains and evaluates";

using enum FieldMeaning;

constexpr DeepSpeedField fields[] = {
    {"zero_optimization.stage", sets, "zero_stage"},
    {"zero_optimization.offload_optimizer.device", sets, "offload_optimizer_device"},
    {"zero_optimization.offload_optimizer.nvme_path", sets, "offload_optimizer_nvme_path"},
    {"zero_optimization.offload_param.device", sets, "offload_param_device"},
    {"zero_optimization.offload_param.nvme_path", sets, "offload_param_nvme_path"},
    {"zero_optimization.cpu_offload", sets, "offload_optimizer_device"},
    {"zero_optimization.cpu_offload_param", sets, "offload_param_device"},
    {"zero_optimization.cpu_offload_params", sets, "offload_param_device"},
    {"zero_optimization.contiguous_gradients", idle, buckets},
    {"zero_optimization.reduce_scatter", idle, buckets},
    {"zero_optimization.reduce_bucket_size", idle, buckets},
    {"zero_optimization.allgather_partitions", idle, buckets},
    {"zero_optimization.allgather_bucket_size", idle, buckets},
    {"zero_optimization.overlap_comm", idle, buckets},
    {"zero_optimization.sub_group_size", idle, buckets},
    {"zero_optimization.prefetch_bucket_size", idle, buckets},
    {"zero_optimization.stage3_prefetch_bucket_size", idle, buckets},
    {"zero_optimization.param_persistence_threshold", idle, buckets},
    {"zero_optimization.stage3_param_persistence_threshold", idle, buckets},
    {"zero_optimization.model_persistence_threshold", idle, buckets},
    {"zero_optimization.stage3_model_persistence_threshold", idle, buckets},
    {"zero_optimization.max_live_parameters", idle, buckets},
    {"zero_optimization.stage3_max_live_parameters", idle, buckets},
    {"zero_optimization.max_reuse_distance", idle, buckets},
    {"zero_optimization.stage3_max_reuse_distance", idle, buckets},
    {"zero_optimization.use_all_reduce_for_fetch_params", idle, buckets},
    {"zero_optimization.stage3_use_all_reduce_for_fetch_params", idle, buckets},
    {"zero_optimization.module_granularity_threshold", idle, buckets},
    {"zero_optimization.stage3_module_granularity_threshold", idle, buckets},
    {"zero_optimization.allgather_sequential", idle, buckets},
    {"zero_optimization.stage3_allgather_sequential", idle, buckets},
    {"zero_optimization.use_multi_rank_bucket_allreduce", idle, buckets},
    {"zero_optimization.round_robin_gradients", idle, buckets},
    {"zero_optimization.ignore_unused_parameters", idle, buckets},
    {"zero_optimization.memory_efficient_linear", idle, buckets},
    {"zero_optimization.override_module_apply", idle, buckets},
    {"zero_optimization.legacy_stage1", idle, buckets},
    {"zero_optimization.parameter_alignment", idle, buckets},
    {"zero_optimization.log_trace_cache_warnings", idle, buckets},
    {"zero_optimization.enable_sanity_checks", idle, buckets},
    {"zero_optimization.compute_grad_norm", idle, buckets},
    {"zero_optimization.save_muon_momentum_buffer_in_memory", idle, buckets},
    {"zero_optimization.leaf_module.*", idle, buckets},
    {"zero_optimization.gather_16bit_weights_on_model_save", idle, whole},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", idle, whole},
    {"zero_optimization.gather_fp16_weights_on_model_save", idle, whole},
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save", idle, whole},
    {"zero_optimization.elastic_checkpoint", idle, whole},
    {"zero_optimization.load_from_fp32_weights", idle, whole},
    {"zero_optimization.pipeline_loading_checkpoint", idle, whole},
    {"zero_optimization.cpu_offload_use_pin_memory", idle, buffers},
    {"zero_optimization.offload_optimizer.*", idle, buffers},
    {"zero_optimization.offload_param.*", idle, buffers},
    {"zero_optimization.aio.*", idle, buffers},
    {"aio.*", idle, buffers},
    {"zero_optimization.zero_hpz_partition_size", refused, no_hierarchy, {"0", "1"}},
    {"zero_optimization.mics_shard_size", refused, no_hierarchy, {"-1", "0"}},
    {"zero_optimization.mics_hierarchical_params_gather", refused, no_hierarchy},
    {"zero_optimization.zero_quantized_weights", refused, no_quantised},
    {"zero_optimization.zero_quantized_nontrainable_weights", refused, no_quantised},
    {"zero_optimization.zero_quantized_gradients", refused, no_quantised},
    {"zero_optimization.zeropp_loco_param.*", refused, no_quantised},
    {"zero_optimization.zenflow.*", refused, in_its_step},
    {"bf16.enabled", binds, "bf16"},
    {"bfloat16.enabled", binds, "bf16"},
    {"bf16.bf16_master_weights_and_grads", refused, fp32_masters},
    {"bfloat16.bf16_master_weights_and_grads", refused, fp32_masters},
    {"bf16.bf16_optimizer_states", refused, bf16_moments},
    {"bfloat16.bf16_optimizer_states", refused, bf16_moments},
    {"bf16.*", idle, on_nan_says},
    {"bfloat16.*", idle, on_nan_says},
    {"fp16.enabled", binds, "fp16"},
    {"fp16.*", idle, for_fp16},
    {"amp.*", unless_enabled, no_fp16},
    {"torch_autocast.*", unless_enabled, bf16_instead},
    {"communication_data_type", sets, "reduce_dtype"},
    {"seq_parallel_communication_data_type", sets, "seq_parallel_communication_data_type"},
    {"data_types.grad_accum_dtype", refused, fp32_sums, {"fp32", "float32"}},
    {"data_types.param_dtype", refused, own_types},
    {"data_types.buffer_dtype", refused, own_types},
    {"data_types.keep_in_fp32_modules", refused, own_types},
    {"train_batch_size", binds, "train_batch_size"},
    {"train_micro_batch_size_per_gpu", binds, "per_device_train_batch_size"},
    {"gradient_accumulation_steps", binds, "gradient_accumulation_steps"},
    {"gradient_clipping", binds, "max_grad_norm"},
    {"optimizer.params.lr", binds, "learning_rate"},
    {"optimizer.params.weight_decay", binds, "weight_decay"},
    {"optimizer.params.eps", binds, "adam_epsilon"},
    {"optimizer.params.torch_adam", idle, own_kernel},
    {"optimizer.params.fused", idle, own_kernel},
    {"optimizer.legacy_fusion", idle, own_kernel},
    {"optimizer.params.set_grad_none", idle, own_kernel},
    {"optimizer.params.bias_correction", refused, "AdamW corrects its bias", {"true"}},
    {"optimizer.params.amsgrad", refused, only_adamw},
    {"optimizer.params.max_grad_norm", refused, "gradient_clipping says it"},
    {"prescale_gradients", idle, divided_once},
    {"gradient_predivide_factor", idle, divided_once},
    {"gradient_allreduce_op", refused, one_mean, {"mean"}},
    {"managed_gradient_accumulation", idle, last_is_known},
    {"zero_allow_untested_optimizer", idle, own_optimizer},
    {"zero_force_ds_cpu_optimizer", idle, own_optimizer},
    {"sparse_gradients", refused, "gradients are dense"},
    {"steps_per_print", idle, metrics},
    {"wall_clock_breakdown", idle, metrics},
    {"memory_breakdown", idle, metrics},
    {"dump_state", idle, metrics},
    {"log_level", idle, metrics},
    {"timers.*", idle, metrics},
    {"flops_profiler.*", idle, metrics},
    {"comms_logger.*", idle, metrics},
    {"comms_config.*", idle, metrics},
    {"monitor_config.*", idle, metrics},
    {"csv_monitor.*", idle, metrics},
    {"tensorboard.*", unless_enabled, "use report_to tensorboard"},
    {"wandb.*", idle, no_trackers},
    {"comet.*", idle, no_trackers},
    {"checkpoint.*", idle, whole},
    {"nebula.*", idle, whole},
    {"datastates.*", idle, whole},
    {"checkpoint.load_universal", refused, no_foreign_checkpoints},
    {"disable_python_gc", idle, "memory is planned, not collected"},
    {"activation_checkpointing.*", idle, recomputing},
    {"disable_allgather", idle, buckets},
    {"dataloader_drop_last", idle, settings_say_it},
    {"vocabulary_size", idle, read_from_model},
    {"sequence_parallel_size", sets, "sp_size"},
    {"tensor_parallel.autotp_size", sets, "tp_size"},
    {"tensor_parallel.*", idle, "it concerns tensor parallelism"},
    {"pipeline.stages", sets, "pp_size"},
    {"pipeline.*", idle, no_pipeline},
    {"elasticity.*", unless_enabled, fixed_batch},
    {"autotuning.*", unless_enabled, trainer_plan_suggest},
    {"expert_parallel.autoep_size", sets, "ep_size"},
    {"expert_parallel.*", idle, experts_are_known},
    {"use_data_before_expert_parallelism", idle, "it concerns expert parallelism"},
    {"hybrid_engine.*", unless_enabled, this_program_trains},
    {"data_efficiency.*", unless_enabled, no_change_of_data},
    {"curriculum_learning.*", unless_enabled, no_change_of_data},
    {"progressive_layer_drop.*", unless_enabled, "every layer is computed"},
    {"quantize_training.*", unless_enabled, no_quantised},
    {"eigenvalue.*", unless_enabled, no_quantised},
    {"compression_training.*", refused, no_quantised},
    {"weight_quantization.*", refused, no_quantised},
    {"sparse_attention.*", refused, "attention is exact"},
    {"compile.passes", idle, passes_are_layouts},
    {"compile.*", idle, no_graph},
    {"graph_harvesting", idle, no_graph},
};

}  // namespace

std::span<const DeepSpeedField> deepspeed_fields() { return fields; }

const DeepSpeedField* find_deepspeed_field(std::string_view path) {
    const DeepSpeedField* best = nullptr;
    for (const DeepSpeedField& field : fields) {
        if (field.path == path) return &field;
        const bool covers =
            field.is_block() && path.starts_with(field.path.substr(0, field.path.size() - 1));
        if (covers && (best == nullptr || field.path.size() > best->path.size())) best = &field;
    }
    return best;
}

bool is_deepspeed_block(std::string_view path) {
    const std::string below = std::string(path) + ".";
    return std::ranges::any_of(
        fields, [&](const DeepSpeedField& field) { return field.path.starts_with(below); });
}

std::string nearest_deepspeed_field(const std::string& path) {
    std::vector<std::string> known{"optimizer", "scheduler"};
    for (const DeepSpeedField& field : fields) known.emplace_back(field.name());
    return nearest_name(path, known);
}

}  // namespace ringshard::config
