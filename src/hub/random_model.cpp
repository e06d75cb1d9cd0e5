#include "ringshard/hub/random_model.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ringshard/base/files.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/hub/safetensors.hpp"
#include "ringshard/hub/sidecar_files.hpp"
#include "ringshard/model/model_spec.hpp"

namespace ringshard::hub {

namespace {

using nlohmann::ordered_json;

// Elements that are made at a time, so that large tensors need not be in memory.
constexpr int64_t filled_elements = int64_t{1} << 24;

double number_of(shard::InitialValues initial) {
    switch (initial) {
        case shard::InitialValues::ones: return 1;
        case shard::InitialValues::softplus_0_8: return std::log(std::expm1(0.8));
        case shard::InitialValues::softplus_0_3: return std::log(std::expm1(0.3));
        default: return 0;
    }
}

// Returns the elements that are zeros, as transformers has it: of the padding token, which tables
// never learn.
shard::Range zeros_of(const shard::PlacedTensor& tensor, const model::ModelSpec& spec) {
    if (!spec.padding_token || !spec.is_table(tensor.spec.name)) return {};
    const int64_t width = tensor.spec.shape.back();
    return {*spec.padding_token * width, (*spec.padding_token + 1) * width};
}

// transformers draws the biases of routers as it draws matrices.
bool is_bias_of_router(const std::string& name, const model::ModelSpec& spec) {
    for (size_t block = 0; block < spec.blocks.size(); ++block) {
        const model::ExpertsSpec* const experts = spec.blocks[block].experts();
        if (experts &&
            name == format_text("{}.{}.{}.bias", spec.names.blocks, block, experts->router))
            return true;
    }
    return false;
}

// Of the last matrices of layers it may be smaller.
double deviation_of(const std::string& name, const model::ModelSpec& spec) {
    const model::BlockSpec& block = spec.blocks.front();
    if (spec.initial_part_of_outputs == 1) return spec.initializer_range;
    const bool is_output = name.ends_with(concat(".", block.attention().out, ".weight")) ||
                           name.ends_with(concat(".", block.mlp().down, ".weight"));
    return spec.initializer_range * (is_output ? spec.initial_part_of_outputs : 1);
}

void write_random(const shard::PlacedTensor& tensor, const model::ModelSpec& spec,
                  const at::Generator& generator, SafetensorsWriter& writer) {
    const double deviation = deviation_of(tensor.spec.name, spec);
    const bool is_drawn =
        tensor.initial == shard::InitialValues::normal || is_bias_of_router(tensor.spec.name, spec);
    const shard::Range zeros = zeros_of(tensor, spec);
    for (int64_t first = 0; first < tensor.size; first += filled_elements) {
        const int64_t count = std::min(tensor.size - first, filled_elements);
        const at::Tensor piece = at::empty({count}, at::TensorOptions(at::kFloat));
        if (is_drawn)
            piece.normal_(0, deviation, generator);
        else if (tensor.initial == shard::InitialValues::log_uniform)
            piece.uniform_(0.01, 16, generator).log_();
        else if (tensor.initial == shard::InitialValues::log_of_places)
            piece.copy_(at::arange(first + 1, first + count + 1)).log_();
        else if (tensor.initial == shard::InitialValues::softplus_of_steps)
            piece.uniform_(std::log(1e-3), std::log(1e-1), generator).exp_().expm1_().log_();
        else
            piece.fill_(number_of(tensor.initial));
        if (const shard::Range here = intersect(zeros, {first, first + count}); here.size() > 0)
            piece.slice(0, here.begin - first, here.end - first).zero_();
        writer.write(
            {static_cast<const float*>(piece.data_ptr()), static_cast<size_t>(piece.numel())});
    }
}

std::optional<Failure> check_space(const std::filesystem::path& folder,
                                   const std::vector<TensorEntry>& entries) {
    double bytes = 0;
    for (const TensorEntry& entry : entries) {
        double elements = 1;
        for (const int64_t size : entry.shape) elements *= static_cast<double>(size);
        bytes += 4 * elements;
    }
    std::error_code error;
    const auto space = std::filesystem::space(folder, error);
    if (error || bytes < static_cast<double>(space.available)) return std::nullopt;
    return Failure{ExitCode::io,
                   format_text("output_dir = {}: the model takes {}, and there is room for {}",
                               folder.string(), human_bytes(bytes),
                               human_bytes(static_cast<double>(space.available)))};
}

// The tokens at which generation begins and ends, as transformers takes them from config.json: from
// its top, else from the text model's fields.
std::string generation_config(const model::ModelSpec& spec) {
    const ordered_json config = parse_json<ordered_json>(spec.config_json).value();
    const ordered_json of_text = config.value(spec.text_config, ordered_json::object());
    ordered_json generation = ordered_json::object();
    for (const auto* name : {"bos_token_id", "eos_token_id", "pad_token_id"})
        for (const ordered_json& fields : {config, of_text})
            if (!generation.contains(name) && fields.contains(name) && !fields[name].is_null())
                generation[name] = fields[name];
    return generation.dump(2) + "\n";
}

}  // namespace

std::optional<Failure> write_random_model(const std::filesystem::path& config_json,
                                          const std::filesystem::path& folder, int64_t seed) {
    const auto spec = model::read_model_spec(config_json);
    if (!spec) return spec.failure();
    const auto file = folder / "model.safetensors";
    std::error_code error;
    if (file_exists(file) || file_exists(folder / "model.safetensors.index.json"))
        return Failure{ExitCode::settings,
                       format_text("output_dir = {}: holds a model already", folder.string())};
    std::filesystem::create_directories(folder, error);
    if (error)
        return Failure{ExitCode::io, format_text("output_dir = {} cannot be made: {}",
                                                 folder.string(), error.message())};

    std::vector<shard::PlacedTensor> tensors;
    std::vector<TensorEntry> entries;
    for (const shard::FlatUnit& unit : model::make_units(spec.value(), 1)) {
        for (const shard::PlacedTensor& tensor : unit.tensors()) {
            tensors.push_back(tensor);
            entries.push_back({tensor.spec.name, StoredType::fp32, tensor.spec.shape});
        }
    }
    for (const model::Constant& constant : spec.value().constants)
        entries.push_back({constant.name, StoredType::fp32, {}});
    remove_unfinished(folder, [&](const std::string& name) { return name == file.filename(); });
    if (auto failure = check_space(folder, entries)) return failure;

    // The weights get their name last: a folder that holds them is whole.
    const auto unfinished = folder / (file.filename().string() + work_mark());
    SafetensorsWriter writer(unfinished, entries);
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
    for (const shard::PlacedTensor& tensor : tensors)
        write_random(tensor, spec.value(), generator, writer);
    for (const model::Constant& constant : spec.value().constants)
        writer.write(std::span(&constant.value, 1));
    auto failure = writer.close();
    if (!failure)
        failure = write_file_atomically(folder / "generation_config.json",
                                        generation_config(spec.value()));
    // A tokenizer that lies beside the config belongs to the model.
    for (const std::string_view name : sidecar_files) {
        if (failure || file_exists(folder / name)) continue;
        if (const auto content = read_file(config_json.parent_path() / name))
            failure = write_file_in(folder, std::string(name), *content);
    }
    if (!failure) failure = write_file_atomically(folder / "config.json", spec.value().config_json);
    if (!failure) return rename_atomically(unfinished, file);
    std::filesystem::remove(unfinished, error);
    return failure;
}

}  // namespace ringshard::hub
