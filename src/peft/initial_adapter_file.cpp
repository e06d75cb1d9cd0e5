#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <fcntl.h>

#include <algorithm>

#include "decompose.hpp"
#include "initial_layers.hpp"
#include "ringshard/base/finite.hpp"
#include "ringshard/base/mix.hpp"
#include "ringshard/base/shared_file.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/model/model_tensors.hpp"
#include "ringshard/peft/initial_adapter.hpp"

namespace ringshard::peft {

namespace fs = std::filesystem;

std::vector<AdaptedLayer> adapted_layers(const model::ModelSpec& spec) {
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const shard::UnitLayout& module : model::modules_of(spec))
        for (const shard::ParameterGroup& group : module.groups())
            for (const shard::TensorSpec& tensor : group.tensors)
                shapes[tensor.name] = tensor.shape;
    std::vector<AdaptedLayer> layers;
    for (const auto& [name, adapter] : spec.layers_of(0)) {
        const std::vector<int64_t>& shape = shapes.at(name + ".weight");
        layers.push_back({name, adapter, shape[0], shape[1]});
    }
    return layers;
}

// Distributes the layers, the most expensive ones first, each to the rank with the least
// work.
std::vector<AdaptedLayer> share_of_layers(const model::ModelSpec& spec, int rank, int num_ranks) {
    const auto cost = [](const AdaptedLayer& layer) {
        return static_cast<double>(layer.out) * static_cast<double>(layer.in) *
               static_cast<double>(std::min(layer.out, layer.in));
    };
    std::vector<AdaptedLayer> layers = adapted_layers(spec);
    std::ranges::stable_sort(layers, std::ranges::greater(), cost);
    std::vector<double> work(static_cast<size_t>(num_ranks));
    std::vector<AdaptedLayer> mine;
    for (const AdaptedLayer& layer : layers) {
        const auto least = std::ranges::min_element(work);
        *least += cost(layer);
        if (least - work.begin() == rank) mine.push_back(layer);
    }
    return mine;
}

namespace {

// The header of the file, and the offsets of its tensors.
struct PlannedFile {
    std::string header;
    std::map<std::string, int64_t> offsets;
};

PlannedFile plan(const model::ModelSpec& spec) {
    std::vector<hub::TensorEntry> entries;
    for (const AdaptedLayer& layer : adapted_layers(spec)) {
        const int64_t rank = layer.adapter.rank;
        entries.push_back({name_in_adapter(layer.name + ".lora_A.weight"),
                           hub::StoredType::fp32,
                           {rank, layer.in}});
        entries.push_back({name_in_adapter(layer.name + ".lora_B.weight"),
                           hub::StoredType::fp32,
                           {layer.out, rank}});
    }
    std::ranges::sort(entries, {}, &hub::TensorEntry::name);
    PlannedFile planned{hub::safetensors_header(entries), {}};
    auto offset = static_cast<int64_t>(planned.header.size());
    for (const hub::TensorEntry& entry : entries) {
        planned.offsets[entry.name] = offset;
        offset += hub::num_bytes(entry);
    }
    return planned;
}

std::optional<Failure> begin_file(const fs::path& folder, const fs::path& file,
                                  const std::string& header) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error)
        return Failure{ExitCode::io, format_text("{}: {}", folder.string(), error.message())};
    remove_unfinished(folder, [](const std::string& name) {
        return name == hub::adapter_weights_name || name == adapter_config_name;
    });
    auto opened = File::open(file, O_WRONLY | O_CREAT | O_TRUNC);
    if (!opened) return opened.failure();
    if (auto failure = opened.value().write_at(std::as_bytes(std::span(header)), 0)) return failure;
    return opened.value().flush();
}

std::optional<Failure> finish_file(const fs::path& folder, const fs::path& file,
                                   const std::string& config) {
    if (auto failure = write_file_atomically(folder / adapter_config_name, config)) return failure;
    if (auto failure = rename_atomically(file, folder / hub::adapter_weights_name)) return failure;
    return flush_folder(folder);
}

Expected<LowRankFactors> factors_of(const AdaptedLayer& layer, const shard::ReadWeight& read,
                                    const config::AdapterInit& init, uint64_t seed) {
    const std::string name = layer.name + ".weight";
    const at::Tensor weight = at::empty({layer.out, layer.in}, at::TensorOptions(at::kFloat));
    const std::span<float> numbers(static_cast<float*>(weight.data_ptr()),
                                   static_cast<size_t>(weight.numel()));
    if (auto failure = read(name, 0, numbers)) return *failure;
    if (!all_finite(numbers))
        return Failure{ExitCode::bad_data,
                       format_text("{} holds NaN or infinite numbers in the model's files", name)};
    return decompose(weight, layer.adapter, init, mix_bits(seed) ^ hash_text(name));
}

std::optional<Failure> write_share(const std::vector<AdaptedLayer>& layers,
                                   const shard::ReadWeight& read, const config::AdapterInit& init,
                                   uint64_t seed, const PlannedFile& planned, const fs::path& file,
                                   ByteCounter& bytes) {
    if (layers.empty()) return std::nullopt;
    auto opened = open_when_visible(file, O_WRONLY);
    if (!opened) return opened.failure();
    for (const AdaptedLayer& layer : layers) {
        const auto factors = factors_of(layer, read, init, seed);
        if (!factors) return factors.failure();
        const auto& [a, b] = factors.value();
        for (const auto& [tensor, ending] :
             {std::pair(a, ".lora_A.weight"), {b, ".lora_B.weight"}}) {
            const std::span<const float> numbers(static_cast<const float*>(tensor.const_data_ptr()),
                                                 static_cast<size_t>(tensor.numel()));
            if (!all_finite(numbers))
                return Failure{ExitCode::bad_numbers,
                               format_text("{}: init_lora_weights finds no finite factors of this "
                                           "weight; use true or gaussian",
                                           layer.name)};
            if (auto failure = opened.value().write_at(
                    std::as_bytes(numbers),
                    planned.offsets.at(name_in_adapter(layer.name + ending))))
                return failure;
            bytes.add(std::ssize(numbers) * static_cast<int64_t>(sizeof(float)));
        }
    }
    return opened.value().flush();
}

}  // namespace

std::optional<comm::AgreedFailure> write_initial_adapter(
    const fs::path& folder, const shard::ReadWeight& read, const model::ModelSpec& spec,
    const LoraConfig& config, uint64_t seed, const std::string& base, const comm::Group& group) {
    if (!at::hasLAPACK())
        return comm::found_by_all(
            {ExitCode::settings,
             "init_lora_weights: pissa and olora need a LibTorch with LAPACK, "
             "and this one has none; use true or gaussian"});
    const PlannedFile planned = plan(spec);
    const fs::path file = folder / (hub::adapter_weights_name + group.broadcast(work_mark()));
    if (const auto failure = comm::first_failure(
            group, group.is_root() ? begin_file(folder, file, planned.header) : std::nullopt))
        return failure;
    if (const auto failure = comm::first_failure(
            group, write_share(share_of_layers(spec, group.rank(), group.size()), read, config.init,
                               seed, planned, file, group.flight_recorder().bytes())))
        return failure;
    LoraConfig written = config;
    written.init = {};
    return comm::first_failure(
        group, group.is_root() ? finish_file(folder, file, print_adapter_config(written, base))
                               : std::nullopt);
}

}  // namespace ringshard::peft
