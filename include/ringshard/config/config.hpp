#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Every setting that the program serves, as plain values. Names, meaning and defaults are TRL's
// (docs/contract.md, section 2); how each is written on a command line or in a file stands in
// src/config/options/.
namespace ringshard::config {

enum class DeviceChoice { automatic, cpu, cuda };
enum class CpuGemm { automatic, onednn, mkl, aten };
enum class Precision { fp32, bf16 };
enum class ActivationPolicy { all, all_but_gate_up, attention, input };  // from most to least
enum class LossType { nll, dft };
enum class PackingStrategy { bfd, bfd_split, wrapped };
enum class PackingScope { batch, global };
enum class TruncationMode { keep_start, keep_end };
enum class SamplingStrategy { random, sequential, group_by_length };
enum class Schedule {
    linear,
    cosine,
    cosine_with_restarts,
    polynomial,
    constant,
    constant_with_warmup,
    inverse_sqrt,
    cosine_with_min_lr,
    cosine_warmup_with_min_lr,
    warmup_stable_decay,
    deepspeed_warmup,
    deepspeed_warmup_decay,
    deepspeed_warmup_cosine,
};
enum class Optimizer { adamw, lion };
enum class NumberType { fp32, bf16 };
enum class OnNan { abort, skip, rewind };
enum class Interval { no, steps, epoch };
enum class SaveStrategy { no, steps, epoch, best };
enum class DistributedType { no, multi_gpu, fsdp, deepspeed };
enum class FsdpStrategy { full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2 };
enum class OffloadDevice { none, cpu, nvme };
enum class StateDictType { full, sharded };
enum class RingStrategy { ring, allgather };
enum class Hdf5Io { direct, mpio };
enum class Verification { sizes, full };

struct RunSettings {
    std::string output_dir = "trainer_output";
    std::string run_name;
    DeviceChoice device = DeviceChoice::automatic;
    bool allow_shared_gpu = false;
    bool tf32 = false;
    int64_t seed = 42;
    std::optional<int64_t> data_seed;
    bool full_determinism = false;
    std::optional<double> max_hours;  // unset: only what SLURM knows
    bool ignore_plan = false;
    bool dry_run = false;
    std::string measure;                   // of doctor: a file
    std::optional<double> hang_timeout_s;  // unset: follows from how long steps take
    CpuGemm cpu_gemm = CpuGemm::automatic;
    std::optional<int64_t> num_threads;  // per rank; unset: the cores this rank may use
};

struct ModelSettings {
    std::string model_name_or_path;
    std::string model_revision = "main";
    std::string dtype = "float32";  // of loading and exporting only: masters are fp32
    std::string chat_template_path;
    std::string config_json;  // of a model to be made
    std::string checkpoint;   // to be exported
    std::string max_shard_size = "5GB";
    std::string eos_token;
    std::vector<std::string> added_tokens;
};

struct DataSettings {
    std::string dataset_name;
    std::string dataset_config;
    std::string dataset_train_split = "train";
    std::string dataset_test_split = "test";
    std::string eval_dataset_name;
    std::string datasets;  // JSON: a mixture
    std::optional<double> test_split_size;
    std::string dataset_text_field = "text";
    std::optional<int64_t> max_length = 1024;
    TruncationMode truncation_mode = TruncationMode::keep_start;
    bool shuffle_dataset = false;
    bool skip_prepare_dataset = false;
    bool packing = false;
    PackingStrategy packing_strategy = PackingStrategy::bfd;
    PackingScope packing_scope = PackingScope::batch;
    std::optional<bool> eval_packing;
    bool padding_free = false;
    std::string pad_to_multiple_of = "auto";
    std::optional<bool> completion_only_loss;
    bool assistant_only_loss = false;
    SamplingStrategy train_sampling_strategy = SamplingStrategy::random;
    bool dataloader_drop_last = false;
    int64_t skip_bad_rows = 0;
    bool strict_length = false;
    std::string data_cache_dir;  // empty: beside what the Hugging Face tools keep
};

struct TrainingSettings {
    int64_t per_device_train_batch_size = 8;
    int64_t gradient_accumulation_steps = 1;
    std::optional<int64_t> train_batch_size;  // rows of a step on the whole world; a check
    double num_train_epochs = 3.0;
    int64_t max_steps = -1;
    double learning_rate = 2e-5;
    Schedule lr_scheduler_type = Schedule::linear;
    std::string lr_scheduler_kwargs;  // JSON
    double warmup_steps = 0;          // below 1: a share of all steps
    Optimizer optim = Optimizer::adamw;
    double weight_decay = 0.0;
    double adam_beta1 = 0.9;
    double adam_beta2 = 0.999;
    double adam_epsilon = 1e-8;
    NumberType optimizer_state_dtype = NumberType::fp32;
    double max_grad_norm = 1.0;
    OnNan on_nan = OnNan::abort;
    int64_t max_skipped_steps = 10;    // in a row
    int64_t check_replicas_every = 0;  // steps; 0: never
    LossType loss_type = LossType::nll;
    double label_smoothing_factor = 0.0;
    Precision mixed_precision = Precision::bf16;
    bool gradient_checkpointing = true;
    std::optional<ActivationPolicy>
        activation_policy;  // unset: attention if checkpointing, else all
    bool activation_offloading = false;
    bool cuda_graphs = false;

    ActivationPolicy activations_kept() const {
        const auto usual =
            gradient_checkpointing ? ActivationPolicy::attention : ActivationPolicy::all;
        return activation_policy.value_or(usual);
    }
};

struct ParallelSettings {
    std::string profile;  // a built-in name or a file in Accelerate's format
    DistributedType distributed_type = DistributedType::multi_gpu;
    int64_t num_processes = 0;   // the world a profile was written for; MPI's world decides
    bool strict_launch = false;  // num_processes has to be MPI's world
    std::optional<int64_t> dp_replicate_size;
    std::optional<int64_t> dp_shard_size;
    std::optional<int64_t> cp_size;
    std::optional<int64_t> sp_size;
    RingStrategy cp_comm_strategy = RingStrategy::ring;
    int64_t zero_stage = 2;
    int64_t fsdp_version = 1;
    FsdpStrategy fsdp_sharding_strategy = FsdpStrategy::full_shard;
    std::optional<bool> fsdp_reshard_after_forward;  // unset: as the sharding strategy says
    StateDictType fsdp_state_dict_type = StateDictType::full;
    OffloadDevice offload_optimizer_device = OffloadDevice::none;
    OffloadDevice offload_param_device = OffloadDevice::none;
    std::string offload_optimizer_nvme_path;
    std::string offload_param_nvme_path;
    NumberType reduce_dtype = NumberType::fp32;
    std::optional<NumberType> seq_parallel_communication_data_type;  // unset: the compute type
};

struct EvaluationSettings {
    Interval eval_strategy = Interval::no;
    std::optional<double> eval_steps;  // unset: logging_steps; below 1: a share of all steps
    double eval_delay = 0;
    bool eval_on_start = false;
    int64_t per_device_eval_batch_size = 8;
    bool load_best_model_at_end = false;
    std::string metric_for_best_model;
    std::optional<bool> greater_is_better;
};

struct StepRange {
    int64_t first;
    int64_t last;
};

struct LoggingSettings {
    Interval logging_strategy = Interval::steps;
    double logging_steps = 10;  // below 1: a share of all steps
    bool logging_first_step = false;
    std::vector<std::string> report_to;
    bool disable_tqdm = false;
    std::string profile_steps;  // "10-12"

    // Nothing if none are asked for; validated settings say it readably.
    std::optional<StepRange> steps_to_profile() const;
    bool reports_to_tensorboard() const {
        return std::ranges::any_of(report_to, [](const std::string& place) {
            return place == "tensorboard" || place == "all";
        });
    }
};

struct CheckpointSettings {
    SaveStrategy save_strategy = SaveStrategy::steps;
    double save_steps = 500;  // below 1: a share of all steps
    std::optional<int64_t> save_total_limit;
    bool save_only_model = false;
    bool save_model_in_checkpoints = false;  // safetensors beside state.h5
    int64_t max_failed_saves = 3;            // in a row
    Hdf5Io hdf5_io = Hdf5Io::direct;
    std::vector<std::string> hdf5_hint;  // key=value, for MPI-IO
    std::string resume_from_checkpoint = "auto";
    Verification verify_checkpoint = Verification::full;
    bool allow_changed = false;
    bool take_over = false;
};

struct Config {
    RunSettings run;
    ModelSettings model;
    DataSettings data;
    TrainingSettings training;
    ParallelSettings parallel;
    EvaluationSettings evaluation;
    LoggingSettings logging;
    CheckpointSettings checkpoint;
};

}  // namespace ringshard::config
