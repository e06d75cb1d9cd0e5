#include "../option_group.hpp"
#include "ringshard/config/config.hpp"

namespace ringshard::config {

void add_parallel_options(OptionTable& table) {
    OptionGroup group(table, "Parallelism", &Config::parallel);
    group.serve("profile", &ParallelSettings::profile,
                "Built-in profile (single_gpu, multi_gpu, zero1, zero2, zero3, fsdp1, fsdp2, "
                "context_parallel_2gpu, alst_ulysses_4gpu, multi_node) or an Accelerate file.");
    group
        .serve("dp_replicate_size", &ParallelSettings::dp_replicate_size,
               "Copies of the model that see different data.")
        .at_least(1);
    group
        .serve("dp_shard_size", &ParallelSettings::dp_shard_size,
               "Ranks that share one copy of the model and see different data.")
        .at_least(1);
    group.serve("cp_size", &ParallelSettings::cp_size, "Ranks of a ring that share one sequence.")
        .at_least(1);
    group.serve("sp_size", &ParallelSettings::sp_size, "Ulysses ranks that share one sequence.")
        .at_least(1);
    group
        .serve("ep_size", &ParallelSettings::ep_size,
               "Ranks that share the experts of each block; they divide dp_shard_size x cp_size x "
               "sp_size and the experts.")
        .at_least(1);
    group.serve("cp_comm_strategy", &ParallelSettings::cp_comm_strategy,
                "Exchange of keys and values: round the ring, or by one all-gather.");
    group
        .serve("distributed_type", &ParallelSettings::distributed_type,
               "Family of settings that chooses the sharded state.")
        .but_not({"MEGATRON_LM"}, "Megatron-LM is another program; use FSDP or DEEPSPEED")
        .but_not({"XLA", "TPU"}, "TPUs are not served")
        .but_not({"MULTI_XPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA", "MULTI_HPU"},
                 "only CPUs and NVIDIA GPUs are served; use MULTI_GPU");
    group
        .serve("num_processes", &ParallelSettings::num_processes,
               "Number of ranks that a profile was written for; MPI has the actual number.")
        .at_least(-1);
    group.serve("strict_launch", &ParallelSettings::strict_launch,
                "Refuse a num_processes that differs from the number of ranks, and values of other "
                "programs in whose place another is taken (optim paged_adamw_8bit, tp_size, fp16); "
                "by default a line at the start says so.");
    group.serve("reduce_dtype", &ParallelSettings::reduce_dtype,
                "Type in which gradients are summed over ranks.");
    group
        .serve("seq_parallel_communication_data_type",
               &ParallelSettings::seq_parallel_communication_data_type,
               "Type in which Ulysses exchanges heads; null: the type of the computation.")
        .but_not({"fp16"}, "fp16 is not served; use bf16");

    group.alias("accelerate_config", "profile");
    group.alias("config_file", "profile");
    group.block("parallelism_config", "Accelerate's sizes.", "parallelism_config_");
    group.alias("parallelism_config_dp_replicate_size", "dp_replicate_size", Shape::integer);
    group.alias("parallelism_config_dp_shard_size", "dp_shard_size", Shape::integer);
    group.alias("parallelism_config_cp_size", "cp_size", Shape::integer);
    group.alias("parallelism_config_sp_size", "sp_size", Shape::integer);
    group.alias("parallelism_config_cp_comm_strategy", "cp_comm_strategy");
    const std::map<std::string, std::string> means_multi_gpu{{"true", "MULTI_GPU"}, {"false", ""}};
    group.alias("multi_gpu", "distributed_type", Shape::boolean, means_multi_gpu);
    group.alias("use_fsdp", "distributed_type", Shape::boolean, {{"true", "FSDP"}, {"false", ""}});
    group.alias("use_deepspeed", "distributed_type", Shape::boolean,
                {{"true", "DEEPSPEED"}, {"false", ""}});

    const std::string shards =
        "these ranks shard the model (dp_shard_size, FSDP if no profile says otherwise): the same "
        "numbers, with rows of their own, so a step has as many times more rows at equal "
        "gradient_accumulation_steps; sp_size or cp_size lets ranks share a row";
    group.replace("tp_size", Shape::integer, "1", shards).also_harmless({"0"});
    group.replace("pp_size", Shape::integer, "1", shards).also_harmless({"0"});
    group.alias("parallelism_config_tp_size", "tp_size", Shape::integer);
    group.alias("parallelism_config_pp_size", "pp_size", Shape::integer);
    group.accept("tp_plan", Shape::word, "null", "ranks shard the model, and none splits a layer");
    const std::string own = "ring and Ulysses attention are built in";
    group.accept("cp_backend", Shape::word, "torch", own);
    group.accept("sp_backend", Shape::word, "deepspeed", own);
    group.accept("sp_attn_implementation", Shape::word, "sdpa", own);
    group.accept("sp_seq_length", Shape::integer, "null", own);
    group.accept("sp_seq_length_is_variable", Shape::boolean, "true", own);
    for (const auto* name : {"cp_backend", "sp_backend", "sp_attn_implementation", "sp_seq_length",
                             "sp_seq_length_is_variable"})
        group.alias(std::string("parallelism_config_") + name, name);
    group.accept("use_parallelism_config", Shape::boolean, "false",
                 "the sizes speak for themselves");
}

void add_fsdp_options(OptionTable& table) {
    OptionGroup group(table, "FSDP", &Config::parallel);
    group
        .serve("fsdp_version", &ParallelSettings::fsdp_version,
               "FSDP version whose setting names apply.")
        .at_least(1)
        .at_most(2);
    group.serve("fsdp_sharding_strategy", &ParallelSettings::fsdp_sharding_strategy,
                "FSDP 1: the sharded state, and whether inside a node only.");
    group
        .serve("fsdp_reshard_after_forward", &ParallelSettings::fsdp_reshard_after_forward,
               "Free gathered weights between forward and backward.")
        .shape = Shape::word;  // FSDP 1 takes the name of a strategy here
    group
        .serve("fsdp_state_dict_type", &ParallelSettings::fsdp_state_dict_type,
               "One checkpoint file, or one per node.")
        .but_not({"LOCAL_STATE_DICT"},
                 "it ties a checkpoint to the number of ranks; use FULL_STATE_DICT or "
                 "SHARDED_STATE_DICT");
    table.add(
        Block{"fsdp",
              "FSDP",
              "transformers' switch for FSDP: true, or words such as \"full_shard auto_wrap\".",
              {},
              {},
              true});
    group.block("fsdp_config", "FSDP settings, in a file or as JSON.", "fsdp_",
                {{"cpu_offload", "fsdp_offload_params"}});
    group.alias("fsdp_offload_params", "offload_param_device", Shape::boolean,
                {{"true", "cpu"}, {"false", "none"}});

    const std::string unit = "every transformer block is a unit of its own";
    group.accept("fsdp_auto_wrap_policy", Shape::word, "null", unit);
    group.accept("fsdp_transformer_layer_cls_to_wrap", Shape::word, "null", unit);
    group.accept("fsdp_transformer_cls_names_to_wrap", Shape::word, "null", unit);
    group.accept("fsdp_min_num_params", Shape::integer, "null", unit);
    group.accept("fsdp_final_state_dict_type", Shape::word, "null",
                 "the result is a whole model in safetensors");
    const std::string loading = "every rank reads its own part of the weights";
    group.accept("fsdp_cpu_ram_efficient_loading", Shape::boolean, "true", loading);
    group.accept("fsdp_sync_module_states", Shape::boolean, "true", loading);
    const std::string overlap = "the next block is gathered while one computes";
    group.accept("fsdp_backward_prefetch", Shape::word, "null", overlap);
    group.accept("fsdp_forward_prefetch", Shape::boolean, "false", overlap);
    group.accept("fsdp_limit_all_gathers", Shape::boolean, "true", overlap);
    group.accept("fsdp_use_orig_params", Shape::boolean, "true",
                 "weights keep their names and shapes");
    group.accept("fsdp_mixed_precision_policy", Shape::word, "null",
                 "mixed_precision and reduce_dtype say it");
    group.refuse("fsdp_ignored_modules", Shape::word, "null", "every weight is sharded");
    group.accept("xla", Shape::boolean, "false", "it concerns TPUs")
        .but_not({"true"}, "TPUs are not served; leave it out");
    group.accept("xla_fsdp_v2", Shape::boolean, "false", "it concerns TPUs");
    group.accept("xla_fsdp_grad_ckpt", Shape::boolean, "false", "it concerns TPUs");
}

}  // namespace ringshard::config
