#include "ringshard/plan/devices.hpp"

#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>

#include "counting_communicator.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/device/host.hpp"

namespace ringshard::plan {

namespace {

constexpr double giga = 1e9;
constexpr double tera = 1e12;
constexpr double gib = 1024.0 * 1024.0 * 1024.0;

struct Known {
    const char* name;
    double memory_gib;  // as the driver tells it
    double peak_bf16;   // without sparsity, 1e12 operations a second
    double bandwidth;   // of its memory, 1e9 bytes a second
    double link;        // 1e9 bytes a second in one direction, like the next
    double network;
    double fp8;          // products as a multiple of those in bf16; 0: none
    double host;         // to and from the memory of the host
    double host_memory;  // 1e12 bytes of the makers' nodes of eight, like the next
    double drives;
};
constexpr std::array known{Known{"a100-40", 39.6, 312, 1555, 250, 25, 0, 25, 1, 15},
                           Known{"a100-80", 79.3, 312, 2039, 250, 25, 0, 25, 2, 30},
                           Known{"h100-80", 79.6, 989.4, 3350, 400, 45, 2, 50, 2, 30},
                           Known{"h200-141", 140.4, 989.4, 4800, 400, 45, 2, 50, 2, 30},
                           Known{"b200", 179.1, 2250, 8000, 800, 90, 2, 50, 2, 30}};
// Bytes a second that a node writes to a shared file system: 40 Gbit/s.
constexpr double usual_save_bytes = 5e9;
// Memory of the driver, the libraries' workspaces and fragmentation.
constexpr double not_for_tensors_gib = 3;

Device of_table(const Known& device) {
    // The share of the peak that large products and attention (forward and backward) reach.
    constexpr double product_share = 0.72;
    constexpr double attention_share = 0.61;
    constexpr double attention_backward_share = 0.52;
    constexpr double memory_share = 0.8;
    constexpr double fp32_share = 1.0 / 16;  // without TF32
    constexpr double loss_bytes = 3 * 2;     // of a logit, read and written
    const double peak = device.peak_bf16 * tera;
    const double bandwidth = memory_share * device.bandwidth * giga;
    constexpr double half_a_block = 64;  // of the diagonal is computed in vain
    const Device::Rates bf16{.products = product_share * peak,
                             .products_backward = product_share * peak,
                             .attention = attention_share * peak,
                             .attention_backward = attention_backward_share * peak,
                             .attention_extra_keys = half_a_block,
                             .attention_backward_extra_keys = half_a_block,
                             .row_bytes = bandwidth,
                             .peak = peak};
    return {.name = device.name,
            .memory_bytes = (device.memory_gib - not_for_tensors_gib) * gib,
            .bf16 = bf16,
            .fp32 = {.products = fp32_share * bf16.products,
                     .products_backward = fp32_share * bf16.products_backward,
                     .attention = fp32_share * bf16.attention,
                     .attention_backward = fp32_share * bf16.attention_backward,
                     .attention_extra_keys = half_a_block,
                     .attention_backward_extra_keys = half_a_block,
                     .row_bytes = bandwidth,
                     .peak = fp32_share * peak},
            .fp8_products = device.fp8,
            // From Hopper on cuDNN is so much faster than FlashAttention-2, which takes documents.
            .packed_attention_share = device.peak_bf16 > 900 ? 1 / 1.9 : 1,
            // Reckoned from the published rates of kernels at several sizes, not measured.
            .products_half_width = 130,
            .attention_half_length = 500,
            .narrow_heads_share = 0.72,
            .loss_logits = bandwidth / loss_bytes,
            .optimizer_bytes = bandwidth,
            .host_copy_bytes = device.host * giga,
            .scratch_bytes = device.host * giga,
            .link_bytes = device.link * giga,
            .network_bytes = device.network * giga,
            .save_bytes = usual_save_bytes,
            .host_memory = device.host_memory * tera,
            .scratch_room = device.drives * tera};
}

// Every number of a device under its name in a file.
template <class Visit>
void visit_numbers(Device& device, Visit visit) {
    visit("memory_bytes", device.memory_bytes);
    visit("bf16_products", device.bf16.products);
    visit("bf16_products_backward", device.bf16.products_backward);
    visit("bf16_attention", device.bf16.attention);
    visit("bf16_attention_backward", device.bf16.attention_backward);
    visit("bf16_attention_extra_keys", device.bf16.attention_extra_keys);
    visit("bf16_attention_backward_extra_keys", device.bf16.attention_backward_extra_keys);
    visit("bf16_peak", device.bf16.peak);
    visit("fp32_products", device.fp32.products);
    visit("fp32_products_backward", device.fp32.products_backward);
    visit("fp32_attention", device.fp32.attention);
    visit("fp32_attention_backward", device.fp32.attention_backward);
    visit("fp32_attention_extra_keys", device.fp32.attention_extra_keys);
    visit("fp32_attention_backward_extra_keys", device.fp32.attention_backward_extra_keys);
    visit("fp32_peak", device.fp32.peak);
    visit("bf16_row_bytes", device.bf16.row_bytes);
    visit("fp32_row_bytes", device.fp32.row_bytes);
    visit("loss_logits", device.loss_logits);
    visit("optimizer_bytes", device.optimizer_bytes);
    visit("host_copy_bytes", device.host_copy_bytes);
    visit("scratch_bytes", device.scratch_bytes);
    visit("link_bytes", device.link_bytes);
    visit("network_bytes", device.network_bytes);
    visit("save_bytes", device.save_bytes);
    visit("host_memory_bytes", device.host_memory);
    visit("scratch_room_bytes", device.scratch_room);
}

// Numbers that a file names where they differ from the usual ones.
template <class Visit>
void visit_optional_numbers(Device& device, Visit visit) {
    visit("fp8_products", device.fp8_products);
    visit("packed_attention_share", device.packed_attention_share);
    visit("products_half_width", device.products_half_width);
    visit("attention_half_length", device.attention_half_length);
    visit("narrow_heads_share", device.narrow_heads_share);
}

std::optional<std::string> field(const std::string& text, const std::string& name) {
    for (const std::string& line : split(text, '\n'))
        if (line.starts_with(name + ":")) return std::string(trim(line.substr(name.size() + 1)));
    return std::nullopt;
}

Expected<Device> read_device(const std::string& file, const std::string& text) {
    Device device{.name = field(text, "name").value_or(file),
                  .is_host = field(text, "is_host") == "true"};
    std::optional<Failure> failure;
    visit_numbers(device, [&](const char* name, double& number) {
        std::istringstream written(field(text, name).value_or(""));
        const bool is_good = (written >> number) && number > 0;
        if (!is_good && !failure)
            failure = Failure{ExitCode::settings,
                              format_text("gpu = {}: {} must be there and a number above 0; "
                                          "`trainer doctor --measure FILE` writes such a file",
                                          file, name)};
    });
    visit_optional_numbers(device, [&](const char* name, double& number) {
        const std::optional<std::string> given = field(text, name);
        if (!given) return;
        std::istringstream written(*given);
        if (!((written >> number) && number >= 0) && !failure)
            failure = Failure{ExitCode::settings,
                              format_text("gpu = {}: {} must be a number of at least 0, or be left "
                                          "out; `trainer plan --show_device` writes such a file",
                                          file, name)};
    });
    if (failure) return *failure;
    return device;
}

}  // namespace

std::string to_text(const Device& device) {
    std::ostringstream text;
    text << "# The rates of one rank while all ranks work: floating-point operations and bytes a "
            "second.\n"
            "# memory_bytes: what tensors of a rank may have. Of a node: save_bytes, what its "
            "ranks\n"
            "# write of a checkpoint in a second; host_memory_bytes, its memory; and\n"
            "# scratch_room_bytes, the room for what ranks keep in files.\n"
         << "name: " << device.name << "\nis_host: " << (device.is_host ? "true" : "false") << '\n'
         << std::setprecision(4);
    Device numbers = device;
    visit_numbers(numbers,
                  [&](const char* name, double number) { text << name << ": " << number << '\n'; });
    std::vector<double> usual;
    Device without;
    visit_optional_numbers(without, [&](const char*, double number) { usual.push_back(number); });
    auto next = usual.begin();
    visit_optional_numbers(numbers, [&](const char* name, double number) {
        if (number != *next++) text << name << ": " << number << '\n';
    });
    return text.str();
}

Expected<Device> with_interconnect(Device device, const std::string& names) {
    struct Way {
        const char* name;
        double bytes;  // a second in one direction, as it is reached; 0: as usual with the device
    };
    static constexpr std::array links{Way{"nvlink", 0}, Way{"pcie3", 11e9}, Way{"pcie4", 22e9},
                                      Way{"pcie5", 45e9}};
    static constexpr std::array networks{
        Way{"eth25", 2.7e9}, Way{"eth100", 11e9}, Way{"ib100", 11e9},  Way{"ib200", 23e9},
        Way{"ib400", 45e9},  Way{"ib800", 90e9},  Way{"efa200", 20e9}, Way{"slingshot200", 22e9}};
    const std::vector<std::string> parts = split(names, '+');
    const auto find = [](const auto& ways, const std::string& name) {
        const auto found = std::ranges::find(ways, name, &Way::name);
        return found == ways.end() ? std::optional<double>() : std::optional(found->bytes);
    };
    const auto link = find(links, parts.front());
    const auto network = parts.size() == 2 ? find(networks, parts[1]) : std::nullopt;
    if (!link || !network) {
        std::vector<std::string> known_links;
        std::vector<std::string> known_networks;
        for (const Way& way : links) known_links.emplace_back(way.name);
        for (const Way& way : networks) known_networks.emplace_back(way.name);
        return Failure{ExitCode::settings,
                       format_text("interconnect = {}: is written as LINK+NETWORK, of {} and {}",
                                   names, join(known_links, ", "), join(known_networks, ", "))};
    }
    if (*link > 0) device.link_bytes = *link;
    device.network_bytes = *network;
    return device;
}

Device mean_of_all(const Device& device, const comm::Group& world) {
    Device mean = device;
    std::vector<double> numbers;
    visit_numbers(mean, [&](const char*, double& number) { numbers.push_back(number); });
    numbers = world.sum(std::move(numbers));
    auto next = numbers.begin();
    visit_numbers(mean, [&](const char*, double& number) { number = *next++ / world.size(); });
    return mean;
}

Expected<Device> find_device(const std::string& name_or_file, int64_t ranks) {
    if (name_or_file == "cpu") {
        Traffic nothing{"none", 1, 0, 0};
        CountingCommunicator alone(nothing, 0);
        return measure_host(alone, ranks);
    }
    std::vector<std::string> names{"cpu"};
    for (const Known& device : known) {
        if (name_or_file == device.name) return of_table(device);
        names.emplace_back(device.name);
    }
    const auto text = read_file(name_or_file);
    if (!text)
        return Failure{
            ExitCode::settings,
            format_text(
                "gpu = {}: known are {}, or a file that `trainer doctor --measure FILE` wrote",
                name_or_file, join(names, ", "))};
    return read_device(name_or_file, *text);
}

}  // namespace ringshard::plan
