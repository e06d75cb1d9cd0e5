#include "check_plan.hpp"

#include <algorithm>
#include <iostream>

namespace ringshard::run {

double least_memory(const CommandContext& context, const Placement& placement,
                    int64_t free_host_memory) {
    int64_t bytes = free_host_memory / placement.ranks_on_host;
    for (const device::Gpu& gpu : device::visible_gpus())
        if (placement.device.is_cuda() && gpu.index == placement.device.index())
            bytes = gpu.memory_bytes;
    return static_cast<double>(context.world.minimum(bytes));
}

plan::Device smallest_device(const CommandContext& context, const Placement& placement,
                             int64_t free_host_memory) {
    return {.name = placement.device.is_cuda() ? "the GPU" : "cpu",
            .memory_bytes = least_memory(context, placement, free_host_memory),
            .is_host = placement.device.is_cpu(),
            .host_memory = static_cast<double>(free_host_memory)};
}

namespace {

// One data rank has no more rows in a micro-batch than there are; several repeat rows to fill
// theirs.
config::Settings with_rows_of_data(const config::Settings& settings, const mesh::MeshShape& shape,
                                   const RunData& data) {
    if (data.training.size() > 1) return settings;
    const data::Rows& rows = data.training.front();
    const int64_t batch = settings.values.training.per_device_train_batch_size;
    if (shape.data() > 1 || rows.size() >= batch || rows.size() == 0) return settings;
    return settings.with("per_device_train_batch_size", concat(rows.size()), config::OptionTable());
}

std::string bytes(double count) { return human_bytes(count); }

std::string tell_cures(const std::vector<Suggestion>& cures) {
    if (cures.empty())
        return "no single setting makes it fit; `trainer plan --suggest` looks for a layout";
    std::vector<std::string> words;
    for (const Suggestion& cure : cures)
        words.push_back(
            format_text("{} ({})", cure.flags, bytes(static_cast<double>(cure.answer.held))));
    return "settings that make it fit: " + join(words, ", ");
}

}  // namespace

Answer answer_of_data(const Planner& planner, const config::Settings& settings,
                      const Placement& placement, const RunData& data) {
    return planner.answer(with_rows_of_data(settings, placement.shape, data), placement.shape,
                          std::max<int64_t>(1, data.longest_row));
}

comm::Agreed<config::Settings> choose_policies(const CommandContext& context,
                                               const Placement& placement,
                                               const model::ModelSpec& spec, const RunData& data,
                                               const ops::Gemms& gemms, int64_t free_host_memory) {
    const config::Settings asked =
        placement.device.is_cuda() ? context.settings.on_gpus() : context.settings;
    if (!asked.values.training.activations_kept().is_automatic()) return asked;
    const plan::Device device = smallest_device(context, placement, free_host_memory);
    const auto chosen = comm::of_root(context.world, [&]() -> Expected<std::string> {
        const PlanArgs args{.world = context.world.size()};
        const Planner planner(spec, device, args, context.environment, placement.num_threads, 0,
                              &gemms);
        const Answer answer = answer_of_data(planner, asked, placement, data);
        std::cerr << describe_automatic(answer.policies, spec) << '\n';
        return to_text(answer.policies);
    });
    if (!chosen) return chosen.failure();
    const std::string asked_at = asked.origin_of("activation_policy").place;
    config::Settings settings =
        asked.with("activation_policy", chosen.value(), config::OptionTable());
    settings.given.at("activation_policy").origin.place = format_text("auto [{}]", asked_at);
    return settings;
}

comm::Agreed<int64_t> check_plan(const CommandContext& context, const Placement& placement,
                                 const model::ModelSpec& spec, const RunData& data,
                                 const ops::Gemms& gemms, int64_t free_host_memory) {
    constexpr double tolerance = 1.05;
    const plan::Device device = smallest_device(context, placement, free_host_memory);
    std::optional<Failure> failure;
    int64_t offloaded = 0;
    if (context.world.is_root()) {
        PlanArgs args{.world = context.world.size()};
        const Planner planner(spec, device, args, context.environment, placement.num_threads, 0,
                              &gemms);
        const Answer answer = answer_of_data(planner, context.settings, placement, data);
        const auto held = static_cast<double>(answer.held);
        offloaded = answer.plan.offloaded_activations;
        std::cerr << "plan: a rank holds at most " << bytes(held) << ", at: " << answer.plan.peak_at
                  << '\n';
        if (held > tolerance * device.memory_bytes) {
            const std::string what = format_text(
                "a step takes {} of a rank (at: {}, {}{}{} tokens), and there are {}; {}",
                bytes(held), answer.plan.peak_at, answer.num_rows,
                answer.num_rows == 1 ? " row of " : " rows of ", answer.row_length,
                bytes(device.memory_bytes),
                tell_cures(planner.cures(with_rows_of_data(context.settings, placement.shape, data),
                                         answer.row_length)));
            if (context.settings.values.run.ignore_plan)
                std::cerr << "warning: " << what << '\n';
            else
                failure =
                    Failure{ExitCode::settings, what + "; --ignore_plan starts the run anyway"};
        }
    }
    if (const auto agreed = comm::first_failure(context.world, failure)) return *agreed;
    return context.world.maximum(offloaded);
}

}  // namespace ringshard::run
