#include "ringshard/train/training_stack.hpp"

#include "ringshard/config/config.hpp"
#include "ringshard/model/fp8_products.hpp"

namespace ringshard::train {

namespace {

shard::Zero::Types types_of(const config::Config& config) {
    const bool computes_bf16 = config.training.computes_in_bf16();
    const bool reduces_bf16 = config.parallel.reduce_dtype == config::NumberType::bf16;
    return {computes_bf16 ? at::kBFloat16 : at::kFloat, reduces_bf16 ? at::kBFloat16 : at::kFloat};
}

TrainingStack::Options options_of(const config::Config& config,
                                  const TrainingStack::Surroundings& surroundings) {
    return {.cuts = mesh::cuts_of(config.parallel),
            .types = types_of(config),
            .training = config.training,
            .state = surroundings.state,
            .delayed_scaling = model::delayed_scaling_options(config.training),
            .transformer = {.policies = config.training.activations_kept(),
                            .residual = model::residual_type(config.training),
                            .objective = model::objective_of(config.training),
                            .noise = config.training.neftune_noise_alpha.value_or(0),
                            .context_parallel = model::context_parallel_options(config.parallel),
                            .fp8 = model::fp8_options(config.training),
                            .gemms = surroundings.gemms,
                            .device_memory = surroundings.device_memory,
                            .activations = surroundings.activations,
                            .recorder = surroundings.recorder,
                            .planned_device = surroundings.planned_device,
                            .on_phase = surroundings.on_phase}};
}

std::unique_ptr<model::DelayedScaling> make_delayed_scaling(const TrainingStack::Options& options,
                                                            const model::ModelSpec& spec,
                                                            at::Device device) {
    if (!options.delayed_scaling) return nullptr;
    return std::make_unique<model::DelayedScaling>(spec, *options.delayed_scaling, device);
}

model::Transformer::Options with_scales(model::Transformer::Options options,
                                        model::DelayedScaling* delayed_scaling) {
    options.delayed_scaling = delayed_scaling;
    return options;
}

}  // namespace

TrainingStack::TrainingStack(const Options& options, const model::ModelSpec& spec,
                             const mesh::Mesh& mesh)
    : zero(model::make_units(spec, mesh.shape(), options.cuts, optim::chooser_of(options.training)),
           options.cuts, options.types, mesh, options.state),
      optimizer(optim::make_optimizer(zero, options.training, options.state.optimizer)),
      delayed_scaling(make_delayed_scaling(options, spec, mesh.device())),
      transformer(spec, zero, mesh, with_scales(options.transformer, delayed_scaling.get())) {}

TrainingStack::TrainingStack(const config::Config& config, const model::ModelSpec& spec,
                             const mesh::Mesh& mesh, const Surroundings& surroundings)
    : TrainingStack(options_of(config, surroundings), spec, mesh) {}

}  // namespace ringshard::train
