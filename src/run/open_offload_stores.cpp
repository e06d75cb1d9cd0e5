#include "open_offload_stores.hpp"

#include <iostream>

#include "ringshard/base/shared_file.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/offload/file_offload_store.hpp"
#include "ringshard/offload/host_offload_store.hpp"

namespace ringshard::run {

namespace {

using config::OffloadDevice;

struct Request {
    const char* name;
    OffloadDevice device;
    const char* path_name;
    const std::string& path;
    const char* what;
};

Request optimizer_request(const config::ParallelSettings& parallel) {
    return {"offload_optimizer_device", parallel.offload_optimizer_device,
            "offload_optimizer_nvme_path", parallel.offload_optimizer_nvme_path, "optimizer state"};
}

Request weights_request(const config::ParallelSettings& parallel) {
    return {"offload_param_device", parallel.offload_param_device, "offload_param_nvme_path",
            parallel.offload_param_nvme_path, "weights"};
}

const char* name_of(OffloadDevice device) { return device == OffloadDevice::nvme ? "nvme" : "cpu"; }

std::optional<Failure> check(const Request& request, const CommandContext& context,
                             const Placement& placement) {
    const std::string asked = format_text("{} = {} [{}]: ", request.name, name_of(request.device),
                                          context.settings.origin_of(request.name).place);
    const bool on_gpu = placement.device.is_cuda();
    if (on_gpu && request.device == OffloadDevice::nvme)
        return Failure{ExitCode::settings,
                       format_text("{}files are for ranks on the CPU; beside a GPU, {} can be in "
                                   "the host's memory: use cpu",
                                   asked, request.what)};
    if (!on_gpu && request.device == OffloadDevice::cpu && context.world.is_root())
        std::cerr
            << "note: " << asked
            << "in a run on the CPU everything is in host memory anyway; it changes nothing\n";
    return std::nullopt;
}

bool moves(const Request& request, const Placement& placement) {
    return request.device == OffloadDevice::nvme ||
           (request.device == OffloadDevice::cpu && placement.device.is_cuda());
}

using MaybeStore = Expected<std::unique_ptr<offload::OffloadStore>>;

MaybeStore open_file(const char* path_name, const std::string& path,
                     const offload::Staging& staging) {
    auto file = offload::ScratchFile::open(path);
    if (!file)
        return Failure{file.failure().code,
                       format_text("{} = {}: {}", path_name, path, file.failure().message)};
    return std::unique_ptr<offload::OffloadStore>(
        std::make_unique<offload::FileOffloadStore>(std::move(file).value(), staging));
}

std::unique_ptr<offload::OffloadStore> in_host_memory(const Placement& placement) {
    return std::make_unique<offload::HostOffloadStore>(placement.device);
}

MaybeStore open(const Request& request, const Placement& placement,
                const offload::Staging& staging) {
    if (!moves(request, placement)) return std::unique_ptr<offload::OffloadStore>();
    if (placement.device.is_cuda()) return in_host_memory(placement);
    return open_file(request.path_name, request.path, staging);
}

// Activations of a GPU go to the host's memory. Those of the CPU go to a file, where weights or
// optimizer state go, or else beside the run's output.
MaybeStore open_for_activations(const CommandContext& context, const Placement& placement,
                                const offload::Staging& staging) {
    const config::Config& config = context.settings.values;
    if (!config.training.activation_offloading) return std::unique_ptr<offload::OffloadStore>();
    if (placement.device.is_cuda()) return in_host_memory(placement);
    const std::string& beside_weights = config.parallel.offload_param_nvme_path;
    const std::string& beside_optimizer = config.parallel.offload_optimizer_nvme_path;
    if (!beside_weights.empty())
        return open_file("offload_param_nvme_path", beside_weights, staging);
    if (!beside_optimizer.empty())
        return open_file("offload_optimizer_nvme_path", beside_optimizer, staging);
    if (context.world.is_root())
        std::cerr << "note: activation_offloading keeps activations in a file in output_dir = "
                  << config.run.output_dir << "; name a disk of the node with offload_dir\n";
    // Rank 0 has made it.
    if (auto failure = wait_until_visible(config.run.output_dir)) return *failure;
    return open_file("output_dir", config.run.output_dir, staging);
}

}  // namespace

comm::Agreed<offload::OffloadStores> open_offload_stores(const CommandContext& context,
                                                         const Placement& placement,
                                                         const mesh::Cuts& cuts) {
    const Request optimizer = optimizer_request(context.settings.values.parallel);
    const Request weights = weights_request(context.settings.values.parallel);
    for (const Request* request : {&optimizer, &weights})
        if (const auto failure = check(*request, context, placement))
            return comm::found_by_all(*failure);
    if (moves(weights, placement) && !cuts.weights)
        return comm::found_by_all(
            {ExitCode::settings,
             format_text("{} = {} [{}]: every rank holds all weights in this profile; only sharded "
                         "weights can be offloaded: use zero3, or FULL_SHARD",
                         weights.name, name_of(weights.device),
                         context.settings.origin_of(weights.name).place)});

    offload::OffloadStores offload_stores;
    auto opened = comm::agreed(context.world, open(optimizer, placement, offload_stores.staging));
    if (!opened) return opened.failure();
    offload_stores.optimizer = std::move(opened).value();
    opened = comm::agreed(context.world, open(weights, placement, offload_stores.staging));
    if (!opened) return opened.failure();
    offload_stores.weights = std::move(opened).value();
    opened = comm::agreed(context.world,
                          open_for_activations(context, placement, offload_stores.staging));
    if (!opened) return opened.failure();
    offload_stores.activations = std::move(opened).value();
    if (offload_stores.activations && context.world.is_root())
        std::cerr << "note: activations of each rank: in " << offload_stores.activations->describe()
                  << ", as much as the longest batch needs\n";
    return offload_stores;
}

std::optional<comm::AgreedFailure> allocate(offload::OffloadStores& offload_stores,
                                            int64_t activation_bytes,
                                            const CommandContext& context) {
    const config::ParallelSettings& parallel = context.settings.values.parallel;
    struct Asked {
        Request request;
        offload::OffloadStore* offload_store;
    };
    for (const auto& [request, offload_store] :
         {Asked{optimizer_request(parallel), offload_stores.optimizer.get()},
          Asked{weights_request(parallel), offload_stores.weights.get()}}) {
        std::optional<Failure> failure;
        if (offload_store != nullptr) failure = offload_store->allocate();
        if (failure)
            failure->message = request.device == OffloadDevice::nvme
                                   ? format_text("{} = {}", request.path_name, failure->message)
                                   : format_text("{} = cpu: {}", request.name, failure->message);
        if (auto agreed = comm::first_failure(context.world, failure)) return agreed;
        if (offload_store != nullptr && context.world.is_root())
            std::cerr << "note: " << request.what << " of each rank: "
                      << human_bytes(static_cast<double>(offload_store->bytes())) << " in "
                      << offload_store->describe() << '\n';
    }
    if (!offload_stores.activations || activation_bytes == 0) return std::nullopt;
    offload_stores.activations->reserve(activation_bytes);
    auto failure = offload_stores.activations->allocate();
    if (failure) failure->message = format_text("activation_offloading: {}", failure->message);
    return comm::first_failure(context.world, failure);
}

}  // namespace ringshard::run
