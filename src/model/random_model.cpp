#include "ringshard/model/random_model.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>

#include "ringshard/base/files.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/model/safetensors.hpp"

namespace ringshard::model {

namespace {

at::Tensor random_tensor(const shard::TensorSpec& spec, double deviation,
                         const at::Generator& generator) {
    at::Tensor tensor = at::empty(spec.shape, at::TensorOptions(at::kFloat));
    if (spec.shape.size() > 1) return tensor.normal_(0, deviation, generator);
    return tensor.fill_(spec.name.ends_with("bias") ? 0 : 1);
}

}  // namespace

std::optional<Failure> write_random_model(const std::filesystem::path& config_json,
                                          const std::filesystem::path& folder, int64_t seed) {
    const auto spec = read_model_spec(config_json);
    if (!spec) return spec.failure();
    if (exists(folder / "model.safetensors"))
        return Failure{ExitCode::settings,
                       concat("output_dir = ", folder.string(), ": holds a model already")};
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error)
        return Failure{ExitCode::io, concat("output_dir = ", folder.string(),
                                            " cannot be made: ", error.message())};

    std::vector<shard::TensorSpec> tensors;
    for (const shard::FlatUnit& unit : make_units(spec.value(), 1))
        for (const shard::PlacedTensor& tensor : unit.tensors()) tensors.push_back(tensor.spec);
    std::vector<SafetensorsWriter::Entry> entries;
    for (const shard::TensorSpec& tensor : tensors)
        entries.push_back({tensor.name, StoredType::fp32, tensor.shape});

    SafetensorsWriter writer(folder / "model.safetensors", entries);
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
    for (const shard::TensorSpec& tensor : tensors) {
        const at::Tensor values = random_tensor(tensor, spec.value().initializer_range, generator);
        writer.write(
            {static_cast<const float*>(values.data_ptr()), static_cast<size_t>(values.numel())});
    }
    if (auto failure = writer.close()) return failure;
    if (auto failure = write_file_atomically(folder / "generation_config.json", "{}\n"))
        return failure;
    return write_file_atomically(folder / "config.json", *read_file(config_json));
}

}  // namespace ringshard::model
