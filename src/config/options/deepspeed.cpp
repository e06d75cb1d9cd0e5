#include "../option_group.hpp"

namespace ringshard::config {

namespace {

// The parts of a DeepSpeed JSON file that say something here, by their path in the file.
std::map<std::string, std::string> names_in_the_file() {
    return {{"zero_optimization.stage", "zero_stage"},
            {"zero_optimization.offload_optimizer.device", "offload_optimizer_device"},
            {"zero_optimization.offload_optimizer.nvme_path", "offload_optimizer_nvme_path"},
            {"zero_optimization.offload_param.device", "offload_param_device"},
            {"zero_optimization.offload_param.nvme_path", "offload_param_nvme_path"},
            {"bf16.enabled", "bf16"},
            {"bfloat16.enabled", "bf16"},
            {"fp16.enabled", "fp16"},
            {"train_micro_batch_size_per_gpu", "per_device_train_batch_size"},
            {"communication_data_type", "reduce_dtype"},
            {"optimizer.params.lr", "learning_rate"},
            {"optimizer.params.weight_decay", "weight_decay"},
            {"optimizer.params.eps", "adam_epsilon"}};
}

void add_deepspeed_file(OptionTable& table, const std::string& group_name) {
    ForeignGroup group(table, group_name);
    for (const auto* name : {"deepspeed", "deepspeed_config_file"})
        table.add(Block{
            name, group_name, "A DeepSpeed JSON file.", {}, names_in_the_file(), false, true});

    const std::string buckets = "a block's gradients and weights travel as one buffer each";
    for (const auto* name : {"contiguous_gradients",
                             "reduce_scatter",
                             "reduce_bucket_size",
                             "allgather_partitions",
                             "allgather_bucket_size",
                             "overlap_comm",
                             "sub_group_size",
                             "stage3_prefetch_bucket_size",
                             "stage3_param_persistence_threshold",
                             "stage3_model_persistence_threshold",
                             "stage3_max_live_parameters",
                             "stage3_max_reuse_distance",
                             "stage3_use_all_reduce_for_fetch_params",
                             "stage3_module_granularity_threshold",
                             "use_multi_rank_bucket_allreduce",
                             "round_robin_gradients",
                             "ignore_unused_parameters",
                             "memory_efficient_linear",
                             "override_module_apply",
                             "legacy_stage1",
                             "parameter_alignment",
                             "log_trace_cache_warnings",
                             "enable_sanity_checks",
                             "compute_grad_norm"})
        group.accept(std::string("zero_optimization.") + name, Shape::word, "null", buckets);
    const std::string whole = "a checkpoint is always whole";
    for (const auto* name :
         {"stage3_gather_16bit_weights_on_model_save", "stage3_gather_fp16_weights_on_model_save",
          "elastic_checkpoint", "load_from_fp32_weights", "pipeline_loading_checkpoint"})
        group.accept(std::string("zero_optimization.") + name, Shape::word, "null", whole);
    const std::string streams = "offloading plans its own buffers";
    for (const auto* name :
         {"pin_memory", "buffer_count", "buffer_size", "max_in_cpu", "pipeline_read",
          "pipeline_write", "fast_init", "ratio", "super_offload", "cpuadam_cores_perc"})
        for (const auto* part : {"offload_optimizer.", "offload_param."})
            group.accept(std::string("zero_optimization.") + part + name, Shape::word, "null",
                         streams);
    for (const auto* name : {"loss_scale", "auto_cast", "initial_scale_power", "loss_scale_window",
                             "hysteresis", "consecutive_hysteresis", "min_loss_scale"})
        group.accept(std::string("fp16.") + name, Shape::word, "null", "it concerns fp16");
    const std::string silent = "rank 0 writes metrics.jsonl and one line per logging step";
    for (const auto* name : {"steps_per_print", "wall_clock_breakdown", "dump_state",
                             "prescale_gradients", "gradient_predivide_factor", "disable_allgather",
                             "zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer"})
        group.accept(name, Shape::word, "null", silent);
    group.accept("train_batch_size", Shape::integer, "null",
                 "it is per_device_train_batch_size x data ranks x gradient_accumulation_steps");
    group.accept("optimizer.type", Shape::word, "AdamW", "AdamW is the optimizer")
        .but_not({"Lamb", "OneBitAdam", "OneBitLamb", "ZeroOneAdam", "Lion", "Muon", "SGD"},
                 "AdamW is the only optimizer served");
    for (const auto* name :
         {"optimizer.params.betas", "optimizer.params.torch_adam", "optimizer.params.adam_w_mode",
          "scheduler.type", "scheduler.params.warmup_min_lr", "scheduler.params.warmup_max_lr",
          "scheduler.params.warmup_num_steps", "scheduler.params.total_num_steps",
          "scheduler.params.warmup_type"})
        group.accept(name, Shape::word, "null",
                     "the schedule and the betas are set under their TRL names");
}

}  // namespace

void add_deepspeed_options(OptionTable& table) {
    OptionGroup group(table, "DeepSpeed", &Config::parallel);
    group
        .serve("zero_stage", &ParallelSettings::zero_stage,
               "0 nothing is cut, 1 optimizer state, 2 also gradients, 3 also weights.")
        .at_least(0)
        .at_most(3);
    group.serve("offload_optimizer_device", &ParallelSettings::offload_optimizer_device,
                "Where optimizer state and master weights live.");
    group.serve("offload_param_device", &ParallelSettings::offload_param_device,
                "Where cut weights live.");
    group.serve("offload_optimizer_nvme_path", &ParallelSettings::offload_optimizer_nvme_path,
                "Folder for optimizer state in files, and for activations.");
    group.serve("offload_param_nvme_path", &ParallelSettings::offload_param_nvme_path,
                "Folder for weights in files, and for activations.");
    group.alias("offload_dir", "offload_param_nvme_path");
    group.block("deepspeed_config", "DeepSpeed settings inside an Accelerate file.");
    add_deepspeed_file(table, "DeepSpeed");
    const std::string loading = "every rank reads its own part of the weights";
    group.accept("zero3_init_flag", Shape::boolean, "null", loading);
    group.accept(
        "zero3_save_16bit_model", Shape::boolean, "null",
        "a checkpoint is always whole; `trainer export --dtype bfloat16` writes 16-bit weights");
    const std::string launcher = "ranks, hosts and addresses come from MPI";
    for (const auto* name : {"deepspeed_multinode_launcher", "deepspeed_hostfile",
                             "deepspeed_exclusion_filter", "deepspeed_inclusion_filter"})
        group.accept(name, Shape::word, "null", launcher);
    const std::string experts = "models with experts are not served; choose a dense model";
    group.refuse("deepspeed_moe_layer_cls_names", Shape::word, "null", experts);
    group.refuse("transformer_moe_cls_names", Shape::word, "null", experts);
    group.accept("is_train_batch_min", Shape::boolean, "true", "batches are dealt out evenly");
    group.refuse("enable_msamp", Shape::boolean, "false", "fp8 is not served; use bf16");
    group.accept("msamp_opt_level", Shape::word, "null", "it concerns fp8");
}

}  // namespace ringshard::config
