#include "test_model.hpp"

#include <ATen/ATen.h>

#include <cstdlib>

#include "ringshard/base/files.hpp"
#include "ringshard/hub/weights.hpp"
#include "ringshard/hub/wrapped_files.hpp"
#include "ringshard/model/freeze.hpp"
#include "ringshard/model/quantize.hpp"
#include "ringshard/train/whole_tensors.hpp"

namespace ringshard::test {

at::Device device() {
    const char* const wish = std::getenv("RINGSHARD_TEST_DEVICE");
    return wish == nullptr ? at::Device(at::kCPU) : at::Device(wish);
}

comm::CommunicatorOptions communicator_options(const comm::Group& group) {
    // All ranks of a test are on one GPU.
    return {.test_delay = {}, .by_way_of_host = device().is_cuda() && group.size() > 1};
}

namespace {

model::ModelSpec spec_of(const std::filesystem::path& folder, const TestModel::Options& options) {
    model::ModelSpec spec = model::read_model_spec(folder / "config.json").value();
    spec.frozen = model::find_frozen(spec, options.freeze, {}).value();
    auto adapters = options.adapters;
    if (!options.adapter.empty()) {
        const auto file = options.adapter / peft::adapter_config_name;
        adapters = peft::parse_adapter_config(*read_file(file), file.string()).value();
    }
    if (adapters)
        if (const auto failure = peft::add_adapter(spec, *adapters)) throw Error(*failure);
    if (options.frozen_form != shard::Codec::compute)
        if (const auto failure = model::quantize_frozen(spec, options.frozen_form))
            throw Error(*failure);
    return spec;
}

}  // namespace

TestModel::TestModel(const comm::Group& group, const std::filesystem::path& folder,
                     const Options& options)
    : mesh(options.make_communicator
               ? mesh::Mesh(options.shape, group.rank(), device(), options.make_communicator)
               : mesh::Mesh(group, options.shape, device(), communicator_options(group))),
      spec(spec_of(folder, options)),
      stack({.cuts = options.cuts,
             .types = {options.compute, at::kFloat},
             .delayed_scaling = options.delayed_scaling,
             .transformer = {.policies = options.policies,
                             .residual = options.residual,
                             .context_parallel = options.context_parallel,
                             .fp8 = options.fp8,
                             .gemms = options.gemms,
                             .recorder = options.recorder,
                             .chunks = options.chunks}},
            spec, mesh),
      sequence_(
          comm::make_communicator(group.split(group.rank() / options.shape.sequence(), "sequence"),
                                  device(), communicator_options(group))) {
    auto stored = hub::StoredModel::open(folder);
    if (const auto failure = hub::find_weights(stored.value(), spec)) throw Error(*failure);
    ByteCounter& bytes = group.flight_recorder().bytes();
    std::vector<peft::AdapterOrigin> origins;
    if (options.adapters) origins.push_back({{1, options.adapters->init}});
    if (!options.adapter.empty())
        origins = {{.stored = hub::StoredModel::open_file(
                                  options.adapter / hub::adapter_weights_name, group)
                                  .value()}};
    const auto read =
        peft::with_adapters(hub::reader_of(stored.value(), spec, bytes), spec, origins);
    shard::TensorSums none({});
    if (const auto failure = hub::load_weights(read, spec, zero, zero.all_weights(), none))
        throw Error(*failure);
    hub::CodeScales scales;
    if (const auto failure = hub::load_coded_weights(read, zero, scales, none))
        throw Error(*failure);
    hub::write_scales(scales, zero);
    zero.refresh_compute_weights();
    if (options.adapter.empty()) peft::set_magnitudes(spec, zero);
    zero.refresh_compute_weights();
    zero.clear_gradients();
}

std::map<std::string, at::Tensor> TestModel::gradients() {
    return train::whole_gradients(zero, mesh);
}
std::map<std::string, at::Tensor> TestModel::weights() { return train::whole_weights(zero, mesh); }

at::Tensor TestModel::logits(const data::FlatBatch& batch) {
    return train::whole_logits(transformer, mesh, *sequence_, batch);
}

}  // namespace ringshard::test
