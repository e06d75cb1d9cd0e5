#include "model_in_training.hpp"

#include "ringshard/train/metrics.hpp"

namespace ringshard::cli {

namespace {

shard::Zero::Types types_of(const config::Config& config) {
    const bool computes_bf16 = config.training.mixed_precision == config::Precision::bf16;
    const bool reduces_bf16 = config.parallel.reduce_dtype == config::NumberType::bf16;
    return {computes_bf16 ? at::kBFloat16 : at::kFloat, reduces_bf16 ? at::kBFloat16 : at::kFloat};
}

}  // namespace

ModelInTraining::ModelInTraining(const EngineCall& call, const mesh::Mesh& mesh,
                                 const RunInputs& inputs, data::Loader& loader,
                                 offload::Scratch depots, model::Recorder* recorder,
                                 const ops::Gemms& gemms, watch::Watchdog& watchdog)
    : scratch(std::move(depots)),
      zero(model::make_units(inputs.spec, mesh.shape().zero()),
           mesh::cuts_of(call.settings.values.parallel), types_of(call.settings.values), mesh,
           {scratch.weights.get(), scratch.optimizer.get()}),
      optimizer(
          optim::make_optimizer(zero, call.settings.values.training, scratch.optimizer.get())),
      marks(mesh.device()),
      transformer(inputs.spec, zero, mesh,
                  {.policy = call.settings.values.training.activations_kept(),
                   .loss = {call.settings.values.training.loss_type == config::LossType::dft,
                            call.settings.values.training.label_smoothing_factor},
                   .travel = model::travel_of(call.settings.values),
                   .gemms = &gemms,
                   .activations = scratch.activations.get(),
                   .recorder = recorder,
                   .note =
                       [this, &watchdog](const std::string& what) {
                           marks.begins(what);
                           watchdog.made_progress();
                       }}),
      trainer(call.settings.values.training, call.world, mesh, loader, transformer, zero,
              *optimizer) {
    if (inputs.data.evaluation)
        evaluator.emplace(*inputs.data.evaluation,
                          call.settings.values.evaluation.per_device_eval_batch_size, call.world,
                          mesh, transformer);
    device::tell_what_is_held([this] { return train::tell_held(zero, *optimizer); });
}

ModelInTraining::~ModelInTraining() { device::tell_what_is_held({}); }

}  // namespace ringshard::cli
