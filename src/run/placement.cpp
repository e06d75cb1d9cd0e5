#include "ringshard/run/placement.hpp"

#include <ATen/Parallel.h>

#include <iostream>

#include "ringshard/base/narrow.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/device/host_memory.hpp"

namespace ringshard::run {

namespace {

std::string bus_id_of(c10::Device device, const std::vector<device::Gpu>& gpus) {
    for (const device::Gpu& gpu : gpus)
        if (device.is_cuda() && gpu.index == device.index()) return gpu.bus_id;
    return {};
}

std::string model_of(c10::Device device, const std::vector<device::Gpu>& gpus) {
    for (const device::Gpu& gpu : gpus)
        if (device.is_cuda() && gpu.index == device.index())
            return format_text("{} of {}", gpu.name,
                               human_bytes(static_cast<double>(gpu.memory_bytes)));
    return {};
}

std::string name_of(c10::Device device, const std::vector<device::Gpu>& gpus) {
    for (const device::Gpu& gpu : gpus)
        if (device.is_cuda() && gpu.index == device.index())
            return format_text("cuda:{} {} {}", gpu.index, gpu.name, gpu.bus_id);
    return "cpu";
}

// A built-in profile's num_processes is an example; any other was written for this job.
std::string describe_other_world(const config::Settings& settings, int64_t world) {
    const int64_t wanted = settings.values.parallel.num_processes;
    const config::Origin origin = settings.origin_of("num_processes");
    if (wanted <= 0 || wanted == world || origin.place.starts_with("profile ")) return {};
    return format_text(
        "num_processes = {} [{}]: srun or mpirun started {}{}, and that number is in force, in the "
        "layout and in the effective batch; start {} with srun --ntasks or mpirun -n, or leave "
        "num_processes out",
        wanted, origin.place, world, world == 1 ? " rank" : " ranks", wanted);
}

// Returns, on the first rank of a host, how its ranks share cores; empty if each has its own.
std::string find_shared_cores(const device::Binding& binding, const comm::Group& neighbours) {
    std::vector<device::Binding> ranks;
    for (const std::string& line :
         neighbours.gather_to_root(join({binding.cores, binding.allowed_cores}, "\t"))) {
        const std::vector<std::string> fields = split(line, '\t');
        ranks.push_back({.cores = fields.at(0), .allowed_cores = fields.at(1)});
    }
    return device::describe_shared_cores(ranks);
}

struct RankDevice {
    std::string host;
    std::string bus_id;  // of its GPU; empty on the CPU
    std::string model;   // of its GPU; empty on the CPU
    std::string device;  // as users see it
    std::string cores;
    std::string shared_cores;  // of its host
};

// Returns the devices of all ranks on rank 0, an empty list elsewhere. Collective over the world.
std::vector<RankDevice> gather_devices(const device::Host& host, c10::Device device,
                                       const std::vector<device::Gpu>& gpus,
                                       const std::string& shared_cores, const comm::Group& world) {
    std::vector<RankDevice> devices;
    for (const std::string& line :
         world.gather_to_root(join({host.name, bus_id_of(device, gpus), model_of(device, gpus),
                                    name_of(device, gpus), host.binding.cores, shared_cores},
                                   "\t"))) {
        const std::vector<std::string> fields = split(line, '\t');
        devices.push_back(
            {fields.at(0), fields.at(1), fields.at(2), fields.at(3), fields.at(4), fields.at(5)});
    }
    return devices;
}

std::optional<Failure> check_distinct(const std::vector<RankDevice>& devices) {
    std::vector<std::string> places;
    for (const RankDevice& rank : devices)
        places.push_back(rank.bus_id.empty() ? "" : rank.host + " " + rank.bus_id);
    return device::check_distinct(places);
}

void warn_of_mixture(const std::vector<RankDevice>& devices) {
    std::vector<std::string> models;
    for (const RankDevice& rank : devices) models.push_back(rank.model);
    const std::string mixture = device::describe_mixture(models);
    if (!mixture.empty()) std::cerr << "warning: " << mixture << '\n';
}

// Such a host computes at a fraction of its speed, and all others wait for it.
void warn_of_shared_cores(const std::vector<RankDevice>& devices) {
    int64_t num_hosts = 0;
    const RankDevice* first = nullptr;
    for (const RankDevice& rank : devices) {
        if (rank.shared_cores.empty()) continue;
        if (++num_hosts == 1) first = &rank;
    }
    if (first == nullptr) return;
    std::cerr << "warning: ranks share cores: on " << first->host << ", " << first->shared_cores;
    if (num_hosts > 1) std::cerr << "; " << num_hosts << " hosts are like this";
    std::cerr
        << "; give each rank cores of its own (mpirun --map-by slot:PE=N --bind-to core, srun "
           "--cpus-per-task=N --cpu-bind=cores) or let it run on all (mpirun --bind-to none, "
           "srun --cpu-bind=none)\n";
}

}  // namespace

std::optional<Failure> check_for_gpus(const config::Settings& settings) {
    if (!settings.values.training.widens_residual()) return std::nullopt;
    return Failure{
        ExitCode::settings,
        format_text("residual_dtype = fp32 [{}]: on GPUs the residual stream has the type "
                    "of the computation, since the kernels of norms read and write one "
                    "type; leave residual_dtype out, or compute in fp32: "
                    "mixed_precision no",
                    settings.origin_of("residual_dtype").place)};
}

static void settle_tf32(bool is_allowed, c10::Device device, const comm::Group& world) {
    device::allow_tf32(is_allowed);
    if (is_allowed && device.is_cpu() && world.is_root())
        std::cerr << "note: tf32: not used, since products are computed on CPUs\n";
}

comm::Agreed<Placement> place_ranks(const CommandContext& context) {
    const comm::Group& world = context.world;
    const config::RunSettings& run = context.settings.values.run;
    if (const auto other = describe_other_world(context.settings, world.size()); !other.empty()) {
        if (context.settings.values.parallel.strict_launch)
            return comm::found_by_all({ExitCode::settings, "strict_launch = true: " + other});
        if (world.is_root()) std::cerr << "warning: " << other << '\n';
    }
    const comm::Group neighbours = world.split_by_host();
    const device::Host host = device::describe_host();
    const std::string memory = device::bind_memory(host.binding);  // before there are threads
    const std::string shared_cores = find_shared_cores(host.binding, neighbours);
    const auto gpus = device::visible_gpus();

    const auto device =
        comm::agreed(world, device::choose_device(run.device, neighbours.rank(), gpus));
    if (!device) return device.failure();
    const int64_t on_gpus = world.sum(device.value().is_cuda() ? 1 : 0);
    if (const auto failure = comm::first_failure(
            world, device::check_same_kind(device.value(), on_gpus, world.size())))
        return *failure;
    if (device.value().is_cuda())
        if (const auto failure = check_for_gpus(context.settings))
            return comm::found_by_all(*failure);
    if (context.settings.values.training.has_fp8())
        if (const auto failure =
                comm::first_failure(world, device::check_fp8(device.value(), gpus)))
            return *failure;
    const std::vector<RankDevice> devices =
        gather_devices(host, device.value(), gpus, shared_cores, world);
    const std::optional<Failure> shared = check_distinct(devices);
    if (!run.allow_shared_gpu)
        if (const auto failure = comm::first_failure(world, shared)) return *failure;

    const int64_t num_hosts = world.sum(neighbours.is_root() ? 1 : 0);
    const auto shape = mesh::choose_shape(context.settings, world.size(), num_hosts);
    if (!shape) return comm::found_by_all(shape.failure());

    device::make_current(device.value());
    settle_tf32(run.tf32, device.value(), world);
    device::keep_host_memory();
    const auto num_threads = comm::agreed(
        world,
        device::choose_num_threads(run.num_threads, context.environment, host, neighbours.size()));
    if (!num_threads) return num_threads.failure();
    at::set_num_threads(narrow<int>(num_threads.value()));

    warn_of_mixture(devices);
    warn_of_shared_cores(devices);
    std::vector<RankPlace> places;
    for (const RankDevice& rank : devices) places.push_back({rank.host, rank.device, rank.cores});
    return Placement{host,
                     memory,
                     device.value(),
                     shape.value(),
                     std::move(places),
                     neighbours.size(),
                     num_threads.value(),
                     world.maximum(shared ? 1 : 0) == 1};
}

void print_start(const CommandContext& context, const Placement& placement) {
    if (!context.world.is_root()) return;
    for (const std::string& note : context.notes) std::cerr << "note: " << note << '\n';
    std::cerr << draw_mesh(placement.shape, placement.places)
              << describe_step(placement.shape, context.settings.values);
}

}  // namespace ringshard::run
