#include "../option_group.hpp"

namespace ringshard::config {

// Adds settings that `accelerate launch` and torchrun need; MPI does their work here.
void add_launcher_options(OptionTable& table) {
    ForeignGroup group(table, "Launcher");
    group.accept_all({{"num_machines", Shape::integer},
                      {"machine_rank", Shape::integer},
                      {"main_process_ip", Shape::word},
                      {"main_process_port", Shape::integer},
                      {"local_rank", Shape::integer},
                      {"rdzv_backend", Shape::word},
                      {"rdzv_conf", Shape::word},
                      {"same_network", Shape::boolean},
                      {"mpirun_hostfile", Shape::word},
                      {"mpirun_ccl", Shape::word},
                      {"compute_environment", Shape::word},
                      {"main_training_function", Shape::word},
                      {"role", Shape::word}},
                     "ranks, hosts and addresses come from MPI");
    group.block("mpirun_config", "Accelerate's mpirun settings.");
    group.accept("gpu_ids", Shape::word, "null",
                 "every rank takes the GPU of its place on the host");
    group.accept("enable_cpu_affinity", Shape::boolean, "false",
                 "srun or mpirun binds ranks to cores");
    group.accept_all({{"max_restarts", Shape::integer}, {"monitor_interval", Shape::number}},
                     "the batch script requeues by exit code");
    group.accept_all({{"quiet", Shape::boolean}, {"tee", Shape::word}, {"log_dir", Shape::word}},
                     "rank 0 speaks; the others only when they fail");
    group.accept_all({{"ddp_find_unused_parameters", Shape::boolean},
                      {"ddp_bucket_cap_mb", Shape::integer},
                      {"ddp_broadcast_buffers", Shape::boolean},
                      {"ddp_static_graph", Shape::boolean},
                      {"ddp_backend", Shape::word},
                      {"ignore_bias_buffers", Shape::boolean}},
                     "gradients of a block are reduced as one buffer");
    group.accept(
        "ddp_timeout", Shape::integer, "1800",
        "hang_timeout_s; by default ten times as long as steps take, and ten minutes at least");
    group.accept_all({{"tpu", Shape::boolean},
                      {"tpu_name", Shape::word},
                      {"tpu_zone", Shape::word},
                      {"tpu_cluster", Shape::boolean},
                      {"no_tpu_cluster", Shape::boolean},
                      {"tpu_use_cluster", Shape::boolean},
                      {"tpu_use_sudo", Shape::boolean},
                      {"tpu_env", Shape::list},
                      {"tpu_vm", Shape::list},
                      {"tpu_num_cores", Shape::integer},
                      {"command_file", Shape::word},
                      {"commands", Shape::list}},
                     "it concerns TPUs");
    group.accept("dynamo_backend", Shape::word, "no", "there is no graph to compile");
    group.accept_all({{"ray_scope", Shape::word}, {"use_ray", Shape::boolean}},
                     "SLURM or mpirun starts the ranks");
    group.block("dynamo_config", "torch.compile settings of Accelerate.", "dynamo_");
    for (const auto* name : {"dynamo_mode", "dynamo_use_fullgraph", "dynamo_use_dynamic",
                             "dynamo_use_regional_compilation"})
        group.accept(name, Shape::word, "null", "there is no graph to compile");
    group.refuse("use_megatron_lm", Shape::boolean, "false",
                 "Megatron-LM is another program; use FSDP or DEEPSPEED");
    group.refuse("module", Shape::boolean, "false", "there is no Python script to start");
    group.refuse("no_python", Shape::boolean, "false", "there is no Python script to start");
    group.block("megatron_lm_config", "Settings of Megatron-LM.", "megatron_lm_");
    group.block("fp8_config", "Settings of FP8 training.", "fp8_", {{"fp8_format", "fp8_format"}});
}

// Adds refused settings: features of TRL that this program does not have.
void add_refused_options(OptionTable& table) {
    ForeignGroup group(table, "Not served");
    table.add(
        RefusedFamily{"megatron_lm_", "Megatron-LM is another program; use FSDP or DEEPSPEED"});
    table.add(RefusedFamily{
        "fp8_",
        "fp8_recipe names the scales of products in FP8, and gradients of weights are products in "
        "bf16; leave it out"});
    table.add(
        RefusedFamily{"aws_", "SageMaker is not served; jobs are started by SLURM or mpirun"});
    table.add(RefusedFamily{"sagemaker_",
                            "SageMaker is not served; jobs are started by SLURM or mpirun"});
}

}  // namespace ringshard::config
