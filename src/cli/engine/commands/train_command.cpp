#include "engine_commands.hpp"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <deque>
#include <iostream>

#include "beginning.hpp"
#include "check_plan.hpp"
#include "cpu_gemm.hpp"
#include "export_template.hpp"
#include "gpu_gemm.hpp"
#include "model_card.hpp"
#include "open_offload_stores.hpp"
#include "open_recorder.hpp"
#include "output_folder.hpp"
#include "passed_tensors.hpp"
#include "placement.hpp"
#include "report_fp8.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/data/loader.hpp"
#include "ringshard/job/side_program.hpp"
#include "ringshard/job/stop_signals.hpp"
#include "ringshard/model/passed_hash.hpp"
#include "ringshard/train/compute_rate.hpp"
#include "ringshard/train/training_loop.hpp"
#include "ringshard/watch/watchdog.hpp"
#include "run_checkpoints.hpp"
#include "run_record.hpp"
#include "test_hooks.hpp"
#include "tracked_run.hpp"

namespace ringshard::cli {

namespace {

using MaybeFailure = std::optional<comm::AgreedFailure>;

// Makes the curves of a run (the model, or the adapters that train together), and the loaders of
// their rows, which must outlive them.
std::vector<train::Curve> make_curves(const config::Config& config, const RunInputs& inputs,
                                      const mesh::MeshShape& shape, int64_t data_rank,
                                      std::deque<data::Loader>& loaders) {
    const auto load = [&](const config::Config& of_curve, const data::Rows& rows) -> data::Loader& {
        return loaders.emplace_back(rows, data::sampler_options(of_curve, rows, shape.data()),
                                    data_rank, of_curve.training.gradient_accumulation_steps);
    };
    const std::vector<const data::Rows*> rows = inputs.data.all_training();
    const std::vector<AdapterInJob>& joint = inputs.adapters.joint;
    if (joint.empty()) return {{config.training, load(config, *rows.front()), config.run.seed}};
    std::vector<train::Curve> curves;
    for (size_t i = 0; i < joint.size(); ++i) {
        const config::Config& own = joint[i].settings.values;
        curves.push_back({own.training, load(own, *rows[i]), own.run.seed, joint[i].name});
    }
    return curves;
}

std::vector<int64_t> count_steps(const std::vector<train::Curve>& curves) {
    std::vector<int64_t> steps;
    for (const train::Curve& curve : curves)
        steps.push_back(train::count_steps(curve.settings, curve.loader.steps_per_epoch()));
    return steps;
}

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

MaybeFailure train(const CommandContext& given) {
    const comm::Group& world = given.world;
    job::note_warnings();  // a warning that comes before the first step is not lost
    const job::Deadline deadline(
        world.is_root() ? job::read_slurm(given.environment) : job::Slurm(),
        given.settings.values.run.max_hours);
    auto faults = comm::agreed(world, Faults::read(given.environment, world.rank()));
    if (!faults) return faults.failure();
    watch::Watchdog watchdog(world, given.settings.values.run.hang_timeout_s,
                             test_hooks::watch_pace(given.environment));

    world.flight_recorder().set_activity("starting");
    const auto start = place_ranks(given);
    if (!start) return start.failure();
    const Placement& placement = start.value();
    print_start(given, placement);
    if (const auto failure = check_hooks(given)) return failure;
    const auto recorder = open_recorder(given, placement);
    if (!recorder) return recorder.failure();
    const mesh::Mesh mesh(world, placement.shape, placement.device,
                          {test_hooks::message_delay(given.environment), placement.shares_gpus});
    if (const auto failure = check_output_dir(given)) return failure;
    const auto found = find_inputs(given, placement, faults.value());
    if (!found) return found.failure();
    const RunInputs& inputs = found.value();
    for (const data::Rows* rows : inputs.data.all_training())
        if (const auto unused =
                check_rows_are_dealt(given.settings, rows->size(), placement.shape.data()))
            return comm::found_by_all(*unused);
    if (const auto failure = report_fp8(given, inputs.spec)) return failure;
    auto gemms = choose_gemms(given, placement, inputs.spec);
    if (!gemms) return gemms.failure();
    if (placement.device.is_cuda() && !given.settings.values.run.dry_run)
        choose_gpu_kernels(given, placement, inputs.spec, gemms.value(),
                           least_memory(given, placement, 0));
    const auto memory = [&] { return test_hooks::device_memory(given.environment); };
    const auto chosen =
        choose_policies(given, placement, inputs.spec, inputs.data, gemms.value().gemms, memory());
    if (!chosen) return chosen.failure();
    const CommandContext context{given.command, chosen.value(), given.notes, given.environment,
                                 world};
    const config::Config& config = context.settings.values;
    std::deque<data::Loader> loaders;
    const std::vector<train::Curve> curves =
        make_curves(config, inputs, placement.shape, mesh.data_rank(), loaders);
    const auto check_memory = [&] {
        return check_plan(context, placement, inputs.spec, inputs.data, gemms.value().gemms,
                          memory());
    };
    if (auto failure = check_output_is_apart(context, inputs)) return failure;
    if (config.run.dry_run) {
        if (const auto checked = check_memory(); !checked) return checked.failure();
        if (world.is_root()) std::cerr << "dry_run: this run can begin\n";
        return std::nullopt;
    }

    watchdog.begin(watch::Work::other);
    world.flight_recorder().set_activity("loading");
    faults.value().reach("load");
    auto sidecar_files = read_sidecar_files(world, inputs.model);
    if (!sidecar_files) return sidecar_files.failure();
    if (world.is_root()) sidecar_files.value()["config.json"] = inputs.spec.config_json;
    if (auto failure = write_export_template(context, sidecar_files.value())) return failure;
    const std::vector<int64_t> num_steps = count_steps(curves);
    const LossFingerprint fingerprint = fingerprint_of(
        context.settings,
        {placement.shape, inputs.data, inputs.spec, num_steps, sidecar_files.value()}, world);
    const RunStart run{context,         inputs.model, inputs.spec,
                       inputs.adapters, fingerprint,  std::ranges::max(num_steps)};
    auto entry = RunEntry::begin(context, fingerprint);
    if (!entry) return entry.failure();
    auto origin = find_origin(run, start_kind(entry.value()));
    if (!origin) return origin.failure();
    if (is_complete(context, origin.value(), run.num_steps)) {
        if (world.is_root())
            std::cerr << format_text("step {} was the last one: this run is complete\n",
                                     run.num_steps);
        return std::nullopt;
    }
    const auto activation_bytes = check_memory();
    if (!activation_bytes) return activation_bytes.failure();
    const auto passed = find_passed_tensors(inputs.model, inputs.spec, world);
    if (!passed) return passed.failure();
    if (origin.value().checkpoint)
        if (const auto changed = check_passed(*origin.value().checkpoint, passed.value()))
            return comm::found_by_all(*changed);
    if (world.is_root()) add_model_card(sidecar_files.value(), config, fingerprint);
    auto offload_stores = open_offload_stores(context, placement, mesh::cuts_of(config.parallel));
    if (!offload_stores) return offload_stores.failure();
    ModelInTraining model(context, mesh, inputs, curves, std::move(offload_stores).value(),
                          recorder.value().get(), gemms.value().gemms,
                          least_memory(context, placement, memory()), watchdog);
    // Pinned now, and not in the first step: tens of seconds where it is much. Files grow as they
    // are written, and with ignore_plan the memory does.
    const bool pins = placement.device.is_cuda() && !config.run.ignore_plan;
    const int64_t pinned = pins ? activation_bytes.value() : 0;
    if (auto failure = allocate(model.offload_stores, pinned, context)) return failure;
    if (inputs.data.prompts)
        model.add_generator(context, mesh, *inputs.data.prompts,
                            find_end_tokens(sidecar_files.value(), world));
    const model::ExportForm model_form{.type = find_written_type(context, sidecar_files.value()),
                                       .wrapped = passed.value() ? &passed.value()->files : nullptr,
                                       .constants = inputs.spec.constants};
    checkpoint::Extras extras =
        extras_of(context, placement.shape, fingerprint, sidecar_files.value());
    add_adapter_config(extras, config, inputs);
    if (passed.value()) {
        extras.texts[passed_text] = passed.value()->folder;
        extras.texts[model::passed_hash_text] = passed.value()->hash;
    }
    const double peak_operations = train::measured_peak(gemms.value().gemms, placement.device,
                                                        model.stack.zero.compute_type());
    const std::vector<std::string> hosts = world.gather_to_root(comm::host_name());

    Beginning beginning(run, entry.value(), model, faults.value(), watchdog);
    auto progress = beginning.first(std::move(origin).value());
    for (;;) {
        if (!progress) return progress.failure();
        Attempt& attempt = beginning.attempt();
        model.trainer.resume_from(progress.value());
        if (auto failure =
                write_run_record(context, placement, inputs.spec, attempt.store.attempt(),
                                 run.num_steps, gemms.value())) {
            const comm::AgreedFailure why = unless_superseded(attempt, *failure, world);
            note_end(attempt, why, world);
            return why;
        }
        if (const auto* initial = beginning.initial_adapter())
            extras.texts[model::initial_adapter_name] = initial->hash();
        if (config.checkpoint.save_model_in_checkpoints)
            if (auto failure = add_model(extras, model.stack.zero, model_form,
                                         beginning.initial_adapter(), world)) {
                note_end(attempt, *failure, world);
                return failure;
            }
        std::optional<shard::FrozenSource> frozen_source;
        if (!inputs.spec.frozen.empty()) {
            extras.texts[checkpoint::frozen_text] = to_text(beginning.frozen());
            // With adapters no frozen weight is written.
            if (!model::has_adapters(inputs.spec)) extras.frozen_source = beginning.frozen_source();
            if (extras.frozen_source.read && beginning.rounds_frozen())
                frozen_source = extras.frozen_source;
        }
        checkpoint::Saver saver(attempt.store, save_options(context), world, faults.value());
        auto ending = train::train_to_the_end(
            {.config = config,
             .world = world,
             .trainer = model.trainer,
             .evaluators = model.evaluators,
             .generator = model.generator ? &*model.generator : nullptr,
             .store = attempt.store,
             .saver = saver,
             .free_host_memory = test_hooks::free_host_memory(context.environment),
             .zero = model.stack.zero,
             .optimizer = *model.stack.optimizer,
             .delayed_scaling = model.stack.delayed_scaling.get(),
             .offload_stores = model.offload_stores,
             .extras = extras,
             .model_form = model_form,
             .frozen_source = frozen_source,
             .initial_adapter = beginning.initial_adapter(),
             .adapter_configs = adapter_configs(config, inputs),
             .faults = faults.value(),
             .deadline = deadline,
             .crash_report = attempt.crash_report,
             .watchdog = watchdog,
             .hosts = hosts,
             .resumed_from = beginning.resumed_from(),
             .peak_operations = peak_operations,
             .tracked_run = tracked_run(context, progress.value().step)});
        if (!ending) ending = unless_superseded(attempt, ending.failure(), world);
        note_end(attempt, ending, world);
        if (recorder.value() && world.is_root()) report_replays(model.stack.transformer.replays());
        if (!ending) return ending.failure();
        if (ending.value() == train::Ending::complete) return std::nullopt;
        world.flight_recorder().set_activity("going back to the newest checkpoint");
        progress = beginning.again();
    }
}

}  // namespace

int run_train(const CommandContext& context) {
    const c10::InferenceMode no_autograd;
    const auto failure = train(context);
    return failure ? report_failure(*failure, context.world) : number(ExitCode::done);
}

}  // namespace ringshard::cli
