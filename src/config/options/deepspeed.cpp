#include "../option_group.hpp"
#include "ringshard/config/config.hpp"

namespace ringshard::config {

void add_deepspeed_options(OptionTable& table) {
    OptionGroup group(table, "DeepSpeed", &Config::parallel);
    group
        .serve("zero_stage", &ParallelSettings::zero_stage,
               "0 nothing is sharded, 1 optimizer state, 2 also gradients, 3 also weights.")
        .at_least(0)
        .at_most(3);
    group.serve("offload_optimizer_device", &ParallelSettings::offload_optimizer_device,
                "Device that holds optimizer state and master weights.");
    group.serve("offload_param_device", &ParallelSettings::offload_param_device,
                "Device that holds sharded weights.");
    group.serve("offload_optimizer_nvme_path", &ParallelSettings::offload_optimizer_nvme_path,
                "Folder for optimizer state in files, and for activations.");
    group.serve("offload_param_nvme_path", &ParallelSettings::offload_param_nvme_path,
                "Folder for weights in files, and for activations.");
    group.alias("offload_dir", "offload_param_nvme_path");
    group.block("deepspeed_config", "DeepSpeed settings inside an Accelerate file.");
    for (const auto* name : {"deepspeed", "deepspeed_config_file"})
        table.add(Block{name, "DeepSpeed", "A DeepSpeed JSON file.", {}, {}, false, true});
    const std::string loading = "every rank reads its own part of the weights";
    group.accept("zero3_init_flag", Shape::boolean, "null", loading);
    group.accept(
        "zero3_save_16bit_model", Shape::boolean, "null",
        "a checkpoint is always whole; `trainer export --dtype bfloat16` writes 16-bit weights");
    const std::string launcher = "ranks, hosts and addresses come from MPI";
    for (const auto* name : {"deepspeed_multinode_launcher", "deepspeed_hostfile",
                             "deepspeed_exclusion_filter", "deepspeed_inclusion_filter"})
        group.accept(name, Shape::word, "null", launcher);
    const std::string units = "blocks are gathered whole, with their experts";
    group.accept("deepspeed_moe_layer_cls_names", Shape::word, "null", units);
    group.accept("transformer_moe_cls_names", Shape::word, "null", units);
    group.accept("is_train_batch_min", Shape::boolean, "true", "batches are divided evenly");
    group.refuse("enable_msamp", Shape::boolean, "false",
                 "MS-AMP is not served; give mixed_precision fp8 for products in FP8");
    group.accept("msamp_opt_level", Shape::word, "null", "it concerns fp8");
}

}  // namespace ringshard::config
