#include "ringshard/run/train.hpp"

#include <iostream>

#include "check_plan.hpp"
#include "output_folder.hpp"
#include "ringshard/job/side_program.hpp"
#include "ringshard/job/stop_signals.hpp"
#include "test_hooks.hpp"
#include "training_run.hpp"

namespace ringshard::run {

namespace {

using MaybeFailure = std::optional<comm::AgreedFailure>;

// Fails (78) if the command of a hook cannot be started.
MaybeFailure check_hooks(const CommandContext& context) {
    const config::LoggingSettings& logging = context.settings.values.logging;
    const std::initializer_list<std::pair<const char*, const std::string&>> hooks{
        {"on_log", logging.on_log},
        {"on_save", logging.on_save},
        {"on_evaluate", logging.on_evaluate},
        {"on_end", logging.on_end}};
    std::optional<Failure> failure;
    for (const auto& [name, command] : hooks) {
        if (!context.world.is_root() || command.empty() || failure) continue;
        if (const std::string reason = job::reason_not_to_start(command); !reason.empty())
            failure = Failure{ExitCode::settings,
                              format_text("{} = {} [{}]: {}", name, command,
                                          context.settings.origin_of(name).place, reason)};
    }
    return comm::first_failure(context.world, failure);
}

// Finds the inputs of a run that may write into output_dir. Collective over the world.
comm::Agreed<RunInputs> find_training_inputs(const CommandContext& given, PlacedJob& job) {
    if (const auto failure = check_hooks(given)) return *failure;
    if (const auto failure = check_output_dir(given)) return *failure;
    auto inputs = find_inputs(given, job.placement, job.faults);
    if (!inputs) return inputs.failure();
    for (const data::Rows& rows : inputs.value().data.training)
        if (const auto unused =
                check_rows_are_dealt(given.settings, rows.size(), job.placement.shape.data()))
            return comm::found_by_all(*unused);
    if (const auto failure = check_output_is_apart(given, inputs.value())) return *failure;
    return inputs;
}

void say(const comm::Group& world, const std::string& line) {
    if (world.is_root()) std::cerr << line << '\n';
}

}  // namespace

// Each stage is made from the stages before it, and sees nothing of those after it.
MaybeFailure train(const CommandContext& given) {
    const comm::Group& world = given.world;
    job::note_warnings();  // a warning that comes before the first step is not lost
    const job::Deadline deadline(
        world.is_root() ? job::read_slurm(given.environment) : job::Slurm(),
        given.settings.values.run.max_hours);
    const auto placed = PlacedJob::place(given);
    if (!placed) return placed.failure();
    PlacedJob& job = *placed.value();
    const auto inputs = find_training_inputs(given, job);
    if (!inputs) return inputs.failure();
    auto choices = make_choices(given, job, inputs.value());
    if (!choices) return choices.failure();
    const CommandContext context{given.command, choices.value().settings, given.notes,
                                 given.environment, world};
    const RunLearners learners(context, job, inputs.value());
    const auto check_memory = [&] {
        return check_plan(context, job.placement, inputs.value().spec, inputs.value().data,
                          choices.value().gemms.gemms,
                          test_hooks::device_memory(context.environment));
    };
    if (context.settings.values.run.dry_run) {
        if (const auto checked = check_memory(); !checked) return checked.failure();
        say(world, "dry_run: this run can begin");
        return std::nullopt;
    }
    auto begun = BegunRun::begin(context, job, inputs.value(), learners);
    if (!begun) return begun.failure();
    if (const int64_t last = begun.value().num_steps;
        is_complete(context, begun.value().origin, last)) {
        say(world, format_text("step {} was the last one: this run is complete", last));
        return std::nullopt;
    }
    const auto activation_bytes = check_memory();
    if (!activation_bytes) return activation_bytes.failure();
    const auto certificate = prove_in_job(context, job, inputs.value());
    if (!certificate) return certificate.failure();
    auto passed = complete_files(context, inputs.value(), begun.value());
    if (!passed) return passed.failure();
    const auto run = TrainingRun::allocate({context, job, inputs.value(), choices.value(), learners,
                                            begun.value(), certificate.value()},
                                           std::move(passed).value(), activation_bytes.value());
    if (!run) return run.failure();
    return run.value()->train_to_the_end(deadline);
}

}  // namespace ringshard::run
