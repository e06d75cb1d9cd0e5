#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ringshard::config {

enum class NumberType { fp32, bf16 };
enum class DistributedType { no, multi_gpu, fsdp, deepspeed };
enum class FsdpStrategy { full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2 };
enum class OffloadDevice { none, cpu, nvme };
enum class StateDictType { full, sharded };
enum class RingStrategy { ring, allgather };

struct ParallelSettings {
    std::string profile;  // a built-in name or a file in Accelerate's format
    DistributedType distributed_type = DistributedType::multi_gpu;
    int64_t num_processes = 0;   // the world size for which a profile was written; MPI decides
    bool strict_launch = false;  // num_processes must equal MPI's world size
    std::optional<int64_t> dp_replicate_size;
    std::optional<int64_t> dp_shard_size;
    std::optional<int64_t> cp_size;
    std::optional<int64_t> sp_size;
    int64_t ep_size = 1;
    RingStrategy cp_comm_strategy = RingStrategy::ring;
    int64_t zero_stage = 2;
    int64_t fsdp_version = 1;
    FsdpStrategy fsdp_sharding_strategy = FsdpStrategy::full_shard;
    std::optional<bool> fsdp_reshard_after_forward;  // unset: by the sharding strategy
    StateDictType fsdp_state_dict_type = StateDictType::full;
    OffloadDevice offload_optimizer_device = OffloadDevice::none;
    OffloadDevice offload_param_device = OffloadDevice::none;
    std::string offload_optimizer_nvme_path;
    std::string offload_param_nvme_path;
    NumberType reduce_dtype = NumberType::fp32;
    std::optional<NumberType> seq_parallel_communication_data_type;  // unset: the compute type
};

}  // namespace ringshard::config
