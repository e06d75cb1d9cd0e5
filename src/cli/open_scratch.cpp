#include "open_scratch.hpp"

#include <iostream>

namespace ringshard::cli {

namespace {

using config::OffloadDevice;

struct Wish {
    const char* name;
    OffloadDevice device;
    const char* path_name;
    const std::string& path;
    const char* what;
};

std::optional<Failure> check(const Wish& wish, const EngineCall& call, const StartUp& start) {
    if (wish.device != OffloadDevice::cpu) return std::nullopt;
    const std::string asked =
        concat(wish.name, " = cpu [", call.settings.origin_of(wish.name).place, "]: ");
    if (start.device.is_cuda())
        return Failure{
            ExitCode::settings,
            concat(asked, wish.what, " in host memory is not built in yet for GPUs; use nvme with ",
                   wish.path_name, ", or leave it out")};
    if (call.world.is_root())
        std::cerr << "note: " << asked << wish.what
                  << " is in host memory anyway in a run on the CPU; it changes nothing\n";
    return std::nullopt;
}

Expected<std::optional<offload::ScratchFile>> open(const char* path_name, const std::string& path) {
    auto file = offload::ScratchFile::open(path);
    if (!file)
        return Failure{file.failure().code,
                       concat(path_name, " = ", path, ": ", file.failure().message)};
    return std::optional(std::move(file).value());
}

Expected<std::optional<offload::ScratchFile>> open(const Wish& wish) {
    if (wish.device != OffloadDevice::nvme) return std::optional<offload::ScratchFile>();
    return open(wish.path_name, wish.path);
}

// They go where weights or optimizer state go, or else beside what the run writes.
Expected<std::optional<offload::ScratchFile>> open_for_activations(const EngineCall& call) {
    const config::Config& config = call.settings.values;
    if (!config.training.activation_offloading) return std::optional<offload::ScratchFile>();
    const std::string& beside_weights = config.parallel.offload_param_nvme_path;
    const std::string& beside_optimizer = config.parallel.offload_optimizer_nvme_path;
    if (!beside_weights.empty()) return open("offload_param_nvme_path", beside_weights);
    if (!beside_optimizer.empty()) return open("offload_optimizer_nvme_path", beside_optimizer);
    if (call.world.is_root())
        std::cerr << "note: activation_offloading keeps activations in a file in output_dir = "
                  << config.run.output_dir << "; name a disk of the node with offload_dir\n";
    return open("output_dir", config.run.output_dir);
}

}  // namespace

comm::Agreed<offload::Scratch> open_scratch(const EngineCall& call, const StartUp& start,
                                            const mesh::Cuts& cuts) {
    const config::ParallelSettings& parallel = call.settings.values.parallel;
    const Wish optimizer{"offload_optimizer_device", parallel.offload_optimizer_device,
                         "offload_optimizer_nvme_path", parallel.offload_optimizer_nvme_path,
                         "optimizer state"};
    const Wish weights{"offload_param_device", parallel.offload_param_device,
                       "offload_param_nvme_path", parallel.offload_param_nvme_path, "weights"};
    for (const Wish* wish : {&optimizer, &weights})
        if (const auto failure = check(*wish, call, start)) return comm::found_by_all(*failure);
    if (weights.device == OffloadDevice::nvme && !cuts.weights)
        return comm::found_by_all(
            {ExitCode::settings,
             concat(weights.name, " = nvme [", call.settings.origin_of(weights.name).place,
                    "]: every rank holds all weights in this profile; what is moved out must be "
                    "cut: use zero3, or FULL_SHARD")});

    offload::Scratch scratch;
    auto opened = comm::agreed(call.world, open(optimizer));
    if (!opened) return opened.failure();
    scratch.optimizer = std::move(opened).value();
    opened = comm::agreed(call.world, open(weights));
    if (!opened) return opened.failure();
    scratch.weights = std::move(opened).value();
    opened = comm::agreed(call.world, open_for_activations(call));
    if (!opened) return opened.failure();
    scratch.activations = std::move(opened).value();
    if (scratch.activations && call.world.is_root())
        std::cerr
            << "note: activations of each rank: in a file as long as the longest batch needs ("
            << scratch.activations->describe() << ")\n";
    return scratch;
}

std::optional<comm::AgreedFailure> allocate(offload::Scratch& scratch, const EngineCall& call) {
    struct Named {
        const char* name;
        const char* what;
        std::optional<offload::ScratchFile>& file;
    };
    for (const Named& named :
         {Named{"offload_optimizer_nvme_path", "optimizer state", scratch.optimizer},
          Named{"offload_param_nvme_path", "weights", scratch.weights}}) {
        std::optional<Failure> failure;
        if (named.file) failure = named.file->allocate();
        if (failure) failure->message = concat(named.name, " = ", failure->message);
        if (auto agreed = comm::first_failure(call.world, failure)) return agreed;
        if (named.file && call.world.is_root())
            std::cerr << "note: " << named.what
                      << " of each rank: " << human_bytes(static_cast<double>(named.file->bytes()))
                      << " in a file (" << named.file->describe() << ")\n";
    }
    return std::nullopt;
}

}  // namespace ringshard::cli
