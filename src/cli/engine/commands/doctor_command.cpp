#include "engine_commands.hpp"

#include <ATen/Parallel.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>
#include <set>
#include <thread>

#include "check_communicator.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/checkpoint/write_rate.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/job/slurm.hpp"
#include "ringshard/plan/devices.hpp"
#include "ringshard/run/cpu_gemm.hpp"
#include "ringshard/run/library_versions.hpp"
#include "ringshard/run/mesh_picture.hpp"
#include "ringshard/run/placement.hpp"

namespace ringshard::cli {

namespace {

std::string output_of(const char* shell_command) {
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(shell_command, "r"), pclose);
    std::string output;
    std::array<char, 256> buffer{};
    while (pipe && std::fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr)
        output += buffer.data();
    return output;
}

void print_versions() {
    std::cout << "versions\n";
    for (const auto& [name, version] : run::library_versions())
        std::cout << "  " << std::left << std::setw(10) << name << std::right << version << '\n';
}

void print_slurm(const Environment& environment) {
    const job::Slurm slurm = job::read_slurm(environment);
    if (slurm.job_id.empty()) return;
    std::cout << "slurm\n  job " << slurm.job_id << " on " << slurm.node_list << ", partition "
              << slurm.partition << (slurm.started_by_srun ? ", ranks started by srun" : "")
              << "\n  srun --mpi=list:";
    for (const std::string& line : split(output_of("srun --mpi=list 2>&1"), '\n'))
        std::cout << ' ' << trim(line);
    std::cout << '\n';
    if (job::needs_pmix_fence(environment, output_of("scontrol show config 2>&1")))
        std::cout
            << "  note: SLURM_PMIX_FENCE is not set: with PMIx's default fence ranks may crash "
               "in MPI_Init on busy nodes; export SLURM_PMIX_FENCE=ring before srun\n";
}

void print_host(const device::Host& host, const std::string& memory, int64_t num_threads) {
    std::cout << "host of rank 0\n  " << host.name << ": " << host.processor << ", "
              << host.num_packages << " packages, " << host.num_numa_nodes << " NUMA nodes, "
              << host.num_cores << " cores, " << human_bytes(static_cast<double>(host.memory_bytes))
              << "\n  may run on the hardware threads numbered " << host.usable_threads
              << ", computes with " << num_threads
              << (num_threads == 1 ? " thread\n" : " threads\n") << "  memory lies " << memory
              << '\n';
}

// The libraries of this build, their versions, and the processor. Collective over the world.
comm::Agreed<std::string> describe_gemms(const comm::Group& world) {
    const auto gemms = comm::agreed(world, ops::Gemms::open());
    if (!gemms) return gemms.failure();
    return format_text("matrix products on the CPU\n  {} on {}\n",
                       run::empty_table(gemms.value(), 0).libraries,
                       gemms.value().processor().description());
}

// Returns a finding if at::parallel_for uses fewer threads than it has.
std::vector<std::string> check_threads() {
    const int promised = at::get_num_threads();
    std::vector<std::thread::id> workers(static_cast<size_t>(promised));
    at::parallel_for(0, promised, 1, [&](int64_t begin, int64_t) {
        workers[static_cast<size_t>(begin)] = std::this_thread::get_id();
    });
    const size_t distinct = std::set(workers.begin(), workers.end()).size();
    if (promised < 2 || distinct >= 2) return {};
    return {format_text(
        "the computation runs on one thread where {} were promised: is OpenMP switched off?",
        promised)};
}

// Returns the findings of all ranks, each once. Collective over the world.
std::vector<std::string> findings_of_all(const comm::Group& world,
                                         const std::vector<std::string>& mine) {
    std::vector<std::string> all;
    std::set<std::string> seen;
    for (const std::string& lines : world.gather(join(mine, "\n")))
        for (const std::string& line : split(lines, '\n'))
            if (!line.empty() && seen.insert(line).second) all.push_back(line);
    return all;
}

// The folders in which a run with these settings writes checkpoints and offloaded state; without
// such settings, the folder of the file that `measure` names.
struct Folders {
    std::filesystem::path checkpoints;
    std::filesystem::path scratch;
};
Folders folders_of(const config::Settings& settings) {
    const config::Config& config = settings.values;
    std::filesystem::path beside = std::filesystem::path(config.run.measure).parent_path();
    if (beside.empty()) beside = ".";
    Folders folders{beside, beside};
    if (settings.is_fixed("output_dir")) folders = {config.run.output_dir, config.run.output_dir};
    for (const std::string& path :
         {config.parallel.offload_optimizer_nvme_path, config.parallel.offload_param_nvme_path})
        if (!path.empty()) folders.scratch = path;
    return folders;
}

// Measures the drives with all ranks at once. Creates no folder. Collective over the world.
comm::Agreed<plan::Device> with_drives(plan::Device device, const Folders& folders,
                                       const comm::Group& world, int ranks_per_host) {
    world.barrier();
    const auto writing = comm::agreed(world, checkpoint::measure_write_rate(folders.checkpoints));
    if (!writing) return writing.failure();
    world.barrier();
    const auto scratch = comm::agreed(world, plan::measure_scratch(folders.scratch));
    if (!scratch) return scratch.failure();
    device.save_bytes = writing.value() * ranks_per_host;
    device.scratch_bytes = scratch.value();
    std::error_code error;
    const auto space = std::filesystem::space(folders.scratch, error);
    if (!error) device.scratch_room = static_cast<double>(space.available);
    return device;
}

// Measures the host with all ranks at once, and writes the mean into the file. Collective over the
// world.
std::optional<comm::AgreedFailure> measure_into(const std::string& file,
                                                const run::CommandContext& context,
                                                const mesh::Mesh& mesh) {
    const comm::Group& world = context.world;
    const int ranks_per_host = world.split_by_host().size();
    world.barrier();
    const auto measured = with_drives(plan::measure_host(mesh.world(), ranks_per_host),
                                      folders_of(context.settings), world, ranks_per_host);
    if (!measured) return measured.failure();
    const plan::Device device = plan::mean_of_all(measured.value(), world);
    std::optional<Failure> failure;
    if (world.is_root()) failure = write_file_atomically(file, to_text(device));
    if (failure) failure->message = format_text("measure = {}: {}", file, failure->message);
    return comm::first_failure(world, failure);
}

}  // namespace

int run_doctor(const run::CommandContext& context) {
    const bool speaks = context.world.is_root();
    const auto place = run::place_ranks(context);
    if (!place) return report_failure(place.failure(), context.world);
    const run::Placement& placement = place.value();
    const auto gemms = describe_gemms(context.world);
    if (!gemms) return report_failure(gemms.failure(), context.world);
    if (speaks) {
        print_versions();
        print_slurm(context.environment);
        print_host(placement.host, placement.memory, placement.num_threads);
        std::cout << gemms.value();
        for (const std::string& note : context.notes) std::cout << "note: " << note << '\n';
        std::cout << run::draw_mesh(placement.shape, placement.places)
                  << run::describe_step(placement.shape, context.settings.values) << std::flush;
    }

    const mesh::Mesh mesh(context.world, placement.shape, placement.device);
    std::vector<std::string> wrong = check_communicators(mesh);
    for (const std::string& line : check_threads()) wrong.push_back(line);
    const Bandwidth bandwidth = measure_all_reduce(mesh, int64_t{64} << 20);
    const bool is_alone = context.world.size() == 1;
    wrong = findings_of_all(context.world, wrong);
    if (const std::string& file = context.settings.values.run.measure; !file.empty())
        if (const auto failure = measure_into(file, context, mesh))
            return report_failure(*failure, context.world);

    if (speaks) {
        std::cout << "numbers exchanged by all groups: "
                  << (wrong.empty() ? "right\n" : "see below\n") << std::fixed
                  << std::setprecision(1) << "all-reduce of 64 MiB over the world: ";
        if (is_alone)
            std::cout << "not measured, there is one rank\n";
        else
            std::cout << bandwidth.milliseconds << " ms, " << bandwidth.bus_gib_per_s
                      << " GiB/s per rank\n";
        for (const std::string& line : wrong) std::cout << "wrong: " << line << '\n';
        if (wrong.empty()) std::cout << "OK\n";
    }
    return number(wrong.empty() ? ExitCode::done : ExitCode::internal);
}

}  // namespace ringshard::cli
