#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ringshard::config {

enum class DeviceChoice { automatic, cpu, cuda };
enum class CpuGemm { automatic, onednn, mkl, aten, native };

struct RunSettings {
    std::string env;  // JSON: variables of the environment by name
    std::string output_dir = "trainer_output";
    std::string run_name;
    DeviceChoice device = DeviceChoice::automatic;
    bool allow_shared_gpu = false;
    bool tf32 = false;
    int64_t seed = 42;
    std::optional<int64_t> data_seed;
    bool full_determinism = false;
    std::optional<double> max_hours;  // unset: SLURM's time limit alone
    bool ignore_plan = false;
    bool dry_run = false;
    bool prove_in_job = false;
    std::string measure;                   // for doctor: path of a file
    std::optional<double> hang_timeout_s;  // unset: from the duration of earlier steps
    CpuGemm cpu_gemm = CpuGemm::automatic;
    std::optional<int64_t> num_threads;  // per rank; unset: the cores that this rank may use
};

}  // namespace ringshard::config
