#include "ringshard/plan/devices.hpp"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <array>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/device/host.hpp"
#include "ringshard/train/compute_rate.hpp"

namespace ringshard::plan {

namespace {

constexpr double gib = 1024.0 * 1024.0 * 1024.0;

struct Known {
    const char* name;
    double memory_gib;  // as the driver tells it
    double peak_bf16;   // without sparsity, 1e12 operations a second
    double bandwidth;   // of its memory, 1e9 bytes a second
    double link;        // 1e9 bytes a second in one direction, like the next
    double network;
};
constexpr std::array known{
    Known{"a100-40", 39.6, 312, 1555, 250, 25}, Known{"a100-80", 79.3, 312, 2039, 250, 25},
    Known{"h100-80", 79.6, 989.4, 3350, 400, 45}, Known{"h200-141", 140.4, 989.4, 4800, 400, 45},
    Known{"b200", 179.1, 2250, 8000, 800, 90}};
// What large products and attention reach of the peak.
constexpr double product_share = 0.72;
constexpr double attention_share = 0.75;
constexpr double memory_share = 0.8;
constexpr double fp32_share = 1.0 / 16;
// Of it, the driver, the libraries' workspaces and what fragments take.
constexpr double not_for_tensors_gib = 3;

Device of_table(const Known& device) {
    constexpr double giga = 1e9;
    constexpr double tera = 1e12;
    return {.name = device.name,
            .memory_bytes = (device.memory_gib - not_for_tensors_gib) * gib,
            .bf16_operations = product_share * device.peak_bf16 * tera,
            .fp32_operations = fp32_share * device.peak_bf16 * tera,
            .attention_share = attention_share,
            .peak_bf16_operations = device.peak_bf16 * tera,
            .memory_bytes_per_second = memory_share * device.bandwidth * giga,
            .link_bytes_per_second = device.link * giga,
            .network_bytes_per_second = device.network * giga};
}

// "name: value" of every line; comments and empty lines do not count.
std::optional<std::string> field(const std::string& text, const std::string& name) {
    for (const std::string& line : split(text, '\n'))
        if (line.starts_with(name + ":")) return std::string(trim(line.substr(name.size() + 1)));
    return std::nullopt;
}

double copied_bytes_per_second() {
    constexpr int64_t elements = int64_t{1} << 24;
    const at::Tensor from = at::zeros({elements}, at::TensorOptions(at::kFloat));
    const at::Tensor into = at::empty_like(from);
    into.copy_(from);  // fresh pages cost more
    const Timer timer;
    into.copy_(from);
    return 2.0 * static_cast<double>(from.nbytes()) / timer.seconds();
}

// As it is measured now, in a tenth of a second.
Device this_host(int64_t ranks) {
    const double bf16 = train::measured_peak(at::kCPU, at::kBFloat16);
    constexpr double through_mpi = 2e9;  // bytes a second
    return {.name = "cpu",
            .memory_bytes =
                static_cast<double>(device::free_host_memory()) / static_cast<double>(ranks),
            .bf16_operations = bf16,
            .fp32_operations = train::measured_peak(at::kCPU, at::kFloat),
            .attention_share = 0.4,
            .peak_bf16_operations = bf16,
            .memory_bytes_per_second = copied_bytes_per_second(),
            .link_bytes_per_second = through_mpi,
            .network_bytes_per_second = through_mpi};
}

}  // namespace

Expected<Device> find_device(const std::string& name_or_file, int64_t ranks) {
    if (name_or_file == "cpu") return this_host(ranks);
    std::vector<std::string> names{"cpu"};
    for (const Known& device : known) {
        if (name_or_file == device.name) return of_table(device);
        names.emplace_back(device.name);
    }
    const auto text = read_file(name_or_file);
    if (!text)
        return Failure{ExitCode::settings,
                       concat("gpu = ", name_or_file, ": known are ", join(names, ", "),
                              ", or a file with the lines name: and memory:")};
    const auto memory = read_bytes(field(*text, "memory").value_or(""));
    if (!memory)
        return Failure{ExitCode::settings,
                       concat(name_or_file, ": has no line such as memory: 80GB")};
    return Device{field(*text, "name").value_or(name_or_file), static_cast<double>(*memory)};
}

}  // namespace ringshard::plan
