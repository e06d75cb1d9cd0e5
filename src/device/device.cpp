#include "ringshard/device/device.hpp"

#include <map>

namespace ringshard::device {

using config::DeviceChoice;

Expected<c10::Device> choose_device(DeviceChoice choice, int64_t local_rank,
                                    const std::vector<Gpu>& visible) {
    if (choice == DeviceChoice::cpu || (choice == DeviceChoice::automatic && visible.empty()))
        return c10::Device(c10::kCPU);
    if (visible.empty()) {
        const char* cure =
            is_built_with_cuda()
                ? "no GPU is visible: ask the scheduler for one, look at CUDA_VISIBLE_DEVICES and "
                  "`nvidia-smi`, or use --device cpu"
                : "this program was built without CUDA: build the preset `cuda`, or use --device "
                  "cpu";
        return Failure{ExitCode::settings, concat("device = cuda: ", cure)};
    }
    const auto index = local_rank % static_cast<int64_t>(visible.size());
    return c10::Device(c10::kCUDA,
                       static_cast<c10::DeviceIndex>(visible[static_cast<size_t>(index)].index));
}

std::optional<Failure> check_distinct(const std::vector<std::string>& places) {
    std::map<std::string, size_t> first_rank;
    for (size_t rank = 0; rank < places.size(); ++rank) {
        if (places[rank].empty()) continue;
        const auto [entry, is_new] = first_rank.emplace(places[rank], rank);
        if (!is_new)
            return Failure{
                ExitCode::settings,
                concat("ranks ", entry->second, " and ", rank, " are on one GPU (", places[rank],
                       "): start as many ranks per host as it has GPUs, for example "
                       "--ntasks-per-node and "
                       "--gpus-per-node alike, or allow it with --allow_shared_gpu")};
    }
    return std::nullopt;
}

}  // namespace ringshard::device
