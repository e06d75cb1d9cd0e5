#include "model_in_training.hpp"

#include <span>

#include "ringshard/train/metrics.hpp"

namespace ringshard::run {

ModelInTraining::ModelInTraining(const CommandContext& context, const mesh::Mesh& mesh,
                                 const RunInputs& inputs, std::vector<train::Learner> learners,
                                 offload::OffloadStores stores, model::Recorder* recorder,
                                 const ops::Gemms& gemms, double device_memory,
                                 watch::Watchdog& watchdog)
    : offload_stores(std::move(stores)),
      marks(mesh.device()),
      stack(context.settings.values, inputs.spec, mesh,
            {.state = {offload_stores.weights.get(), offload_stores.optimizer.get()},
             .activations = offload_stores.activations.get(),
             .gemms = &gemms,
             .device_memory = device_memory,
             .recorder = recorder,
             .on_phase =
                 [this, &watchdog](const std::string& what) {
                     marks.begins(what);
                     watchdog.made_progress();
                 }}),
      trainer(context.world, mesh, std::move(learners), stack.transformer, stack.zero,
              *stack.optimizer, context.settings.values.adapter.adapters_at_a_time) {
    add_evaluators(context, mesh, inputs);
    device::set_memory_report(
        [this] { return train::describe_held(stack.zero, *stack.optimizer); });
}

void ModelInTraining::add_evaluators(const CommandContext& context, const mesh::Mesh& mesh,
                                     const RunInputs& inputs) {
    for (const auto& [subject, rows] : inputs.data.evaluation)
        evaluators.emplace_back(subject, rows,
                                context.settings.values.evaluation.per_device_eval_batch_size,
                                context.world, mesh, stack.transformer);
}

void ModelInTraining::add_generator(const CommandContext& context, const mesh::Mesh& mesh,
                                    const EvalPrompts& prompts, std::vector<int32_t> end_tokens) {
    const auto to_text = [tools = prompts.tools](std::span<const int32_t> tokens) {
        return tools->tokenizer().decode(tokens, text::Decoding::everything);
    };
    generator.emplace(
        prompts.prompts,
        train::Generator::Options{context.settings.values.evaluation.eval_max_new_tokens,
                                  std::move(end_tokens), to_text},
        context.world, mesh.device(), stack.transformer);
}

ModelInTraining::~ModelInTraining() { device::set_memory_report({}); }

}  // namespace ringshard::run
