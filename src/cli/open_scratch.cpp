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

Expected<std::optional<offload::ScratchFile>> open(const Wish& wish) {
    if (wish.device != OffloadDevice::nvme) return std::optional<offload::ScratchFile>();
    auto file = offload::ScratchFile::open(wish.path);
    if (!file)
        return Failure{file.failure().code,
                       concat(wish.path_name, " = ", wish.path, ": ", file.failure().message)};
    return std::optional(std::move(file).value());
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
