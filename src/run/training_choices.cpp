#include "training_choices.hpp"

#include "check_plan.hpp"
#include "find_batch_size.hpp"
#include "gpu_gemm.hpp"
#include "open_recorder.hpp"
#include "ringshard/run/report_fp8.hpp"
#include "test_hooks.hpp"

namespace ringshard::run {

comm::Agreed<TrainingChoices> make_choices(const CommandContext& given, const PlacedJob& job,
                                           const RunInputs& inputs) {
    auto recorder = open_recorder(given, job.placement);
    if (!recorder) return recorder.failure();
    if (const auto failure = report_fp8(given, inputs.spec)) return *failure;
    auto gemms = choose_gemms(given, job.placement, inputs.spec);
    if (!gemms) return gemms.failure();
    const int64_t memory = test_hooks::device_memory(given.environment);
    const auto batched = find_batch_size(given, job.placement, inputs.spec, inputs.data,
                                         gemms.value().gemms, memory);
    if (!batched) return batched.failure();
    const CommandContext context{given.command, batched.value(), given.notes, given.environment,
                                 given.world};
    if (job.placement.device.is_cuda() && !given.settings.values.run.dry_run)
        choose_gpu_kernels(context, job.placement, inputs.spec, gemms.value(),
                           least_memory(context, job.placement, 0));
    auto settings = choose_policies(context, job.placement, inputs.spec, inputs.data,
                                    gemms.value().gemms, memory);
    if (!settings) return settings.failure();
    return TrainingChoices{std::move(recorder).value(), std::move(gemms).value(),
                           std::move(settings).value()};
}

RunLearners::RunLearners(const CommandContext& context, const PlacedJob& job,
                         const RunInputs& inputs) {
    const std::vector<LearnerInJob> asked = learners_of(context.settings, inputs.adapters);
    for (size_t i = 0; i < asked.size(); ++i) {
        const config::Config& own = asked[i].settings.values;
        const data::Rows& rows = inputs.data.training[i];
        loaders.emplace_back(rows, data::sampler_options(own, rows, job.placement.shape.data()),
                             job.mesh.data_rank(), own.training.gradient_accumulation_steps);
        learners.push_back(
            train::Learner({own.training, loaders.back(), own.run.seed, asked[i].name}));
    }
}

std::vector<int64_t> RunLearners::num_steps() const {
    std::vector<int64_t> steps;
    for (const train::Learner& learner : learners) steps.push_back(learner.planned_steps());
    return steps;
}

}  // namespace ringshard::run
