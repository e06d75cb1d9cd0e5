#include "ringshard/device/device.hpp"

#include <sys/resource.h>

#include <map>

#include "ringshard/config/run_settings.hpp"
#include "ringshard/device/host_memory.hpp"

namespace ringshard::device {

using config::DeviceChoice;

Expected<c10::Device> choose_device(DeviceChoice choice, int64_t local_rank,
                                    const std::vector<Gpu>& visible) {
    if (choice == DeviceChoice::cpu || (choice == DeviceChoice::automatic && visible.empty()))
        return c10::Device(c10::kCPU);
    if (visible.empty())
        return Failure{ExitCode::settings,
                       format_text("device = cuda: {}, or use --device cpu", why_no_gpu())};
    const auto index = local_rank % static_cast<int64_t>(visible.size());
    const Gpu& gpu = visible[static_cast<size_t>(index)];
    constexpr double oldest = 8.0;  // Ampere: the first with bf16
    if (std::stod(gpu.capability) < oldest)
        return Failure{
            ExitCode::settings,
            format_text("device = {}: {} has compute capability {}, and the kernels need 8.0 "
                        "(A100) or newer: ask the scheduler for such a GPU, or use --device cpu",
                        choice == DeviceChoice::cuda ? "cuda" : "auto", gpu.name, gpu.capability)};
    return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(gpu.index));
}

std::optional<Failure> check_same_kind(c10::Device device, int64_t on_gpus, int64_t ranks) {
    if (device.is_cuda() || on_gpus == 0) return std::nullopt;
    return Failure{
        ExitCode::settings,
        format_text("device = auto: this host shows no GPU ({}), and {} of {} ranks have "
                    "one: leave the host out (--exclude), mend its driver, or use "
                    "--device cpu on all",
                    why_no_gpu(), on_gpus, ranks)};
}

std::optional<Failure> check_fp8(c10::Device device, const std::vector<Gpu>& visible) {
    if (device.is_cpu()) return std::nullopt;
    constexpr double oldest = 8.9;  // Ada
    for (const Gpu& gpu : visible)
        if (gpu.index == device.index() && std::stod(gpu.capability) < oldest)
            return Failure{
                ExitCode::settings,
                format_text(
                    "mixed_precision = fp8: {} has compute capability {}, and products in FP8 need "
                    "8.9 or newer (H100 has 9.0): ask the scheduler for such a GPU, or give bf16",
                    gpu.name, gpu.capability)};
    return std::nullopt;
}

MemoryUse take_memory_use(c10::Device device) {
    if (device.is_cuda()) return take_gpu_memory_use(device);
    const int64_t tensors = host_memory_use().peak;
    restart_host_memory_peak();
    struct rusage usage {};
    getrusage(RUSAGE_SELF, &usage);
    return {
        .tensors = tensors, .process = static_cast<int64_t>(usage.ru_maxrss) * 1024, .driver = 0};
}

std::optional<Failure> check_distinct(const std::vector<std::string>& places) {
    std::map<std::string, size_t> first_rank;
    for (size_t rank = 0; rank < places.size(); ++rank) {
        if (places[rank].empty()) continue;
        const auto [entry, is_new] = first_rank.emplace(places[rank], rank);
        if (!is_new)
            return Failure{ExitCode::settings,
                           format_text("ranks {} and {} are on one GPU ({}): start as many ranks "
                                       "per host as it has GPUs, for example --ntasks-per-node and "
                                       "--gpus-per-node alike, or allow it with --allow_shared_gpu",
                                       entry->second, rank, places[rank])};
    }
    return std::nullopt;
}

std::string describe_mixture(const std::vector<std::string>& models) {
    std::map<std::string, size_t> count;
    for (const std::string& model : models)
        if (!model.empty()) ++count[model];
    if (count.size() < 2) return {};
    std::string text = "the ranks run on different GPUs (";
    const char* separator = "";
    for (const auto& [model, ranks] : count) {
        text += format_text("{}{} x {}", separator, ranks, model);
        separator = ", ";
    }
    return text +
           "): every step takes as long as the slowest needs, and the one with the least memory "
           "limits the model";
}

}  // namespace ringshard::device
