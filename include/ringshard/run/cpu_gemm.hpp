#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ringshard/config/run_settings.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/ops/gemm.hpp"
#include "ringshard/run/placement.hpp"

namespace ringshard::config {
struct Config;
}

namespace ringshard::run {

// Chooses the library for each matrix product of a run.
struct ChosenGemms {
    ops::Gemms gemms;
    std::string record;  // JSON for run.json, on rank 0; "null" without products on the CPU
    std::string gpu_record = "null";  // the same, of kernels for GPUs that were chosen by time
};

// Opens the libraries and chooses among them as `cpu_gemm` and `full_determinism` say. `auto`: rank
// 0 takes what run.json in output_dir or the cache file has for this processor, and times the rest.
// All ranks take its choice. Collective over the world.
comm::Agreed<ChosenGemms> choose_gemms(const CommandContext& context, const Placement& placement,
                                       const model::ModelSpec& spec);

// The products of a model's layers, each once.
std::vector<ops::GemmKind> gemm_kinds(const model::ModelSpec& spec, at::ScalarType type);

// Makes the library that `cpu_gemm` names make all products. Fails if this build or this processor
// has no such products. `origin`: where the setting came from.
std::optional<Failure> take_named_gemm(ops::Gemms& gemms, config::CpuGemm named,
                                       at::ScalarType type, const std::string& origin);

// The result of a timing on one kind of processor with these libraries and so many threads.
struct GemmTable {
    std::string processor;
    std::string libraries;  // "onednn 2.6.3, mkl 2024.2, aten 2.11.0"
    int64_t threads = 0;
    std::map<std::string, std::string> products;  // "forward bf16 2816x512": "onednn"
};
GemmTable empty_table(const ops::Gemms& gemms, int64_t threads);
std::string to_json(const GemmTable& table);
// Fails with the place and the rule that the text breaks.
Expected<GemmTable> parse_table(const std::string& text);
std::string name_of(const ops::GemmKind& kind);

// The table under this key in run.json of output_dir, since a resumed run computes as it began:
// perhaps of another run, or empty.
GemmTable former_table(const config::Config& config, const std::string& key);

// All ranks take the libraries that rank 0's table names, and its rule for what is not in the
// table. Fails if the processor of another rank has no such products. Collective over the world.
std::optional<comm::AgreedFailure> take_choice_of_root(const comm::Group& world, ops::Gemms& gemms,
                                                       const std::vector<ops::GemmKind>& kinds,
                                                       const GemmTable& table);

// In `folder`, named after the processor and the number of threads.
std::filesystem::path gemm_cache_file(const std::filesystem::path& folder, const GemmTable& table);

// Adds to `table` what the file says. Returns a warning if the file is damaged or is of another
// processor; products of other versions of the libraries are left out without a word.
std::string read_gemm_cache(const std::filesystem::path& file, GemmTable& table);

}  // namespace ringshard::run
