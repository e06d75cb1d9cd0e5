#include "training_run.hpp"

#include <iostream>

#include "check_plan.hpp"
#include "open_offload_stores.hpp"
#include "open_recorder.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/shared_file.hpp"
#include "ringshard/hub/passed_hash.hpp"
#include "ringshard/train/compute_rate.hpp"
#include "run_checkpoints.hpp"
#include "run_record.hpp"
#include "test_hooks.hpp"
#include "tracked_run.hpp"

namespace ringshard::run {

namespace {

namespace fs = std::filesystem;
using MaybeFailure = std::optional<comm::AgreedFailure>;

checkpoint::Extras make_extras(const RunStages& stages,
                               const std::optional<PassedTensors>& passed) {
    checkpoint::Extras extras = extras_of(stages.context, stages.job.placement.shape,
                                          stages.begun.fingerprint, stages.begun.sidecar_files);
    add_adapter_config(extras, stages.context.settings.values, stages.inputs);
    if (passed) {
        extras.texts[passed_text] = passed->folder;
        extras.texts[hub::passed_hash_text] = passed->hash;
    }
    return extras;
}

// Returns the run that this one begins from, if its checkpoint is in another folder.
std::optional<checkpoint::Parent> parent_of(const Origin& origin, const fs::path& output_dir) {
    if (!origin.checkpoint) return std::nullopt;
    const fs::path folder = fs::absolute(origin.checkpoint->folder).lexically_normal();
    if (is_same_folder(folder.parent_path(), output_dir)) return std::nullopt;
    return checkpoint::Parent{folder, origin.checkpoint->progress.step};
}

// The parent may lie where this user cannot write.
void keep_in_parent(const checkpoint::Parent& parent, const fs::path& output_dir) {
    if (const auto failure = note_use(parent, output_dir))
        std::cerr << format_text(
            "warning: {}; so the run there may remove {} before this run has a checkpoint of its "
            "own\n",
            failure->message, parent.checkpoint.filename().string());
}

}  // namespace

TrainingRun::TrainingRun(const RunStages& stages, std::optional<PassedTensors> passed,
                         offload::OffloadStores stores)
    : stages_(stages),
      passed_(std::move(passed)),
      model_(stages.context, stages.job.mesh, stages.inputs, stages.learners.learners,
             std::move(stores), stages.choices.recorder.get(), stages.choices.gemms.gemms,
             least_memory(stages.context, stages.job.placement,
                          test_hooks::device_memory(stages.context.environment)),
             *stages.job.watchdog),
      form_{.type = find_written_type(stages.context, stages.begun.sidecar_files),
            .wrapped = passed_ ? &passed_->files : nullptr,
            .constants = stages.inputs.spec.constants},
      extras_(make_extras(stages, passed_)),
      peak_operations_(train::measured_peak(stages.choices.gemms.gemms, stages.job.placement.device,
                                            model_.stack.zero.compute_type())),
      hosts_(stages.context.world.gather_to_root(comm::host_name())) {}

comm::Agreed<std::unique_ptr<TrainingRun>> TrainingRun::allocate(
    const RunStages& stages, std::optional<PassedTensors> passed, int64_t activation_bytes) {
    const auto& [context, job, inputs, choices, learners, begun, certificate] = stages;
    const config::Config& config = context.settings.values;
    auto stores = open_offload_stores(context, job.placement, mesh::cuts_of(config.parallel));
    if (!stores) return stores.failure();
    auto run = std::make_unique<TrainingRun>(stages, std::move(passed), std::move(stores).value());
    // Pinned now, and not in the first step: tens of seconds where it is much. Files grow as they
    // are written, and with ignore_plan the memory does.
    const bool pins = job.placement.device.is_cuda() && !config.run.ignore_plan;
    if (const auto failure =
            run::allocate(run->model_.offload_stores, pins ? activation_bytes : 0, context))
        return *failure;
    if (inputs.data.prompts)
        run->model_.add_generator(context, job.mesh, *inputs.data.prompts,
                                  find_end_tokens(begun.sidecar_files, context.world));
    return run;
}

MaybeFailure TrainingRun::train_to_the_end(const job::Deadline& deadline) {
    const auto& [context, job, inputs, choices, learners, begun, certificate] = stages_;
    const comm::Group& world = context.world;
    const RunStart start = begun.start(context, inputs);
    Beginning beginning(start, begun.entry, model_, job.faults, *job.watchdog);
    const fs::path output_dir = context.settings.values.run.output_dir;
    if (world.is_root()) parent_ = parent_of(begun.origin, output_dir);
    if (parent_) keep_in_parent(*parent_, output_dir);
    auto progress = beginning.first(std::move(begun.origin));
    if (progress && context.settings.values.training.has_reference())
        if (const auto failure = give_references(beginning)) {
            note_end(beginning.attempt(), *failure, world);
            return failure;
        }
    for (;;) {
        if (!progress) return progress.failure();
        auto ending = take_attempt(beginning, progress.value(), deadline);
        if (!ending) ending = unless_superseded(beginning.attempt(), ending.failure(), world);
        note_end(beginning.attempt(), ending, world);
        if (!ending) return ending.failure();
        if (ending.value() == train::Ending::complete) return std::nullopt;
        world.flight_recorder().set_activity("going back to the newest checkpoint");
        progress = beginning.again();
    }
}

// Adds what an export needs to every checkpoint, as this attempt has loaded it.
MaybeFailure TrainingRun::add_weights_to_checkpoints(const Beginning& beginning) {
    const model::ModelSpec& spec = stages_.inputs.spec;
    if (const auto* initial = beginning.initial_adapter())
        extras_.texts[peft::initial_adapter_name] = initial->hash();
    if (stages_.context.settings.values.checkpoint.save_model_in_checkpoints)
        if (auto failure = add_model(extras_, model_.stack.zero, form_, beginning.initial_adapter(),
                                     stages_.context.world))
            return failure;
    if (spec.frozen.empty()) return std::nullopt;
    extras_.texts[checkpoint::frozen_text] = to_text(beginning.frozen());
    // With adapters no frozen weight is written.
    if (!spec.has_adapters()) extras_.frozen_source = beginning.frozen_source();
    return std::nullopt;
}

// Returns the text of verify.json for the weights as they are, on rank 0; an empty one for adapters
// that train together, and for a run in FP8 or with quantised weights: a reader of its files
// computes other numbers, or a head of scores, which gives no log-probabilities of tokens.
comm::Agreed<std::string> TrainingRun::compute_references() {
    const auto& [context, job, inputs, choices, learners, begun, certificate] = stages_;
    const config::Config& config = context.settings.values;
    if (are_several(inputs.adapters) || config.quantization.is_on() ||
        model::fp8_options(config.training) || inputs.spec.scores)
        return std::string();
    if (!has_asked_for_references_) {
        has_asked_for_references_ = true;
        auto made = RunReferences::make(begun.sidecar_files, inputs.spec, context.world);
        if (!made) return made.failure();
        references_ = std::move(made).value();
    }
    if (!references_) return std::string();
    job.watchdog->begin(watch::Work::evaluation);
    auto text = references_->compute(
        model_.stack.transformer, model_.stack.zero.compute_type(), job.mesh, context.world,
        [&job = job](double operations) { job.watchdog->expect(operations); });
    job.watchdog->begin(watch::Work::other);
    return text;
}

// Returns the reference of these rows. A run that begins computes it; one that goes on finds it in
// output_dir, or in the folder of the run from which it goes on.
comm::Agreed<train::ReferenceLogProbs> TrainingRun::reference_of(const data::Rows& rows,
                                                                 const fs::path& resumed_from) {
    const auto& [context, job, inputs, choices, learners, begun, certificate] = stages_;
    const std::string name = train::ReferenceLogProbs::file_name(rows);
    const fs::path mine = fs::path(context.settings.values.run.output_dir) / name;
    if (resumed_from.empty()) {
        if (context.world.is_root())
            std::cerr << "computing the reference of " << rows.size() << " rows\n";
        const auto failure = train::write_reference_log_probs(
            mine, rows, context.settings.values.evaluation.per_device_eval_batch_size,
            context.world, job.mesh, model_.stack.transformer, [&job = job](double operations) {
                job.watchdog->begin(watch::Work::evaluation);
                job.watchdog->expect(operations);
            });
        job.watchdog->begin(watch::Work::other);
        if (const auto agreed = comm::first_failure(context.world, failure)) return *agreed;
    }
    const auto found = comm::of_root(context.world, [&]() -> Expected<std::string> {
        std::vector<fs::path> files{mine};
        if (!resumed_from.empty()) files.push_back(resumed_from.parent_path() / name);
        for (const fs::path& file : files) {
            if (!file_exists(file)) continue;
            if (auto damaged = train::ReferenceLogProbs::check(file)) return *damaged;
            return file.string();
        }
        return Failure{
            ExitCode::missing_input,
            format_text("{} is missing: it holds the log-probabilities of these answers under the "
                        "model at the start of the run, which a checkpoint does not have. Put it "
                        "back, name the same rows as before (with loss_type kto as many in a step "
                        "as before, too), or begin a run with the exported model",
                        mine.string())};
    });
    if (!found) return found.failure();
    const auto invisible = wait_until_visible(found.value());
    return comm::agreed(context.world, invisible
                                           ? Expected<train::ReferenceLogProbs>(*invisible)
                                           : train::ReferenceLogProbs::map(found.value(), rows));
}

MaybeFailure TrainingRun::give_references(const Beginning& beginning) {
    const auto of_training =
        reference_of(stages_.inputs.data.training.front(), beginning.resumed_from());
    if (!of_training) return of_training.failure();
    model_.trainer.give_reference(of_training.value());
    for (train::Evaluator& evaluator : model_.evaluators) {
        const auto reference = reference_of(evaluator.rows(), beginning.resumed_from());
        if (!reference) return reference.failure();
        evaluator.give_reference(reference.value());
    }
    return std::nullopt;
}

comm::Agreed<train::Ending> TrainingRun::take_attempt(Beginning& beginning,
                                                      const checkpoint::Progress& progress,
                                                      const job::Deadline& deadline) {
    const auto& [context, job, inputs, choices, learners, begun, certificate] = stages_;
    const config::Config& config = context.settings.values;
    Attempt& attempt = beginning.attempt();
    model_.trainer.resume_from(progress);
    if (const auto failure = write_run_record(
            context, job.placement, inputs.spec,
            {attempt.store.attempt(), begun.num_steps, choices.gemms, certificate}))
        return *failure;
    const auto unrecorded = std::exchange(parent_, std::nullopt);
    if (const auto failure = comm::first_failure(
            context.world, unrecorded
                               ? checkpoint::record_parent(config.run.output_dir, *unrecorded)
                               : std::optional<Failure>()))
        return *failure;
    if (const auto failure = add_weights_to_checkpoints(beginning)) return *failure;
    std::optional<shard::FrozenSource> frozen_source;
    if (extras_.frozen_source.read && beginning.rounds_frozen())
        frozen_source = extras_.frozen_source;
    checkpoint::Saver saver(attempt.store, save_options(context), context.world, job.faults);
    auto ending = train::train_to_the_end(
        {.config = config,
         .world = context.world,
         .trainer = model_.trainer,
         .evaluators = model_.evaluators,
         .generator = model_.generator ? &*model_.generator : nullptr,
         .store = attempt.store,
         .saver = saver,
         .free_host_memory = test_hooks::free_host_memory(context.environment),
         .zero = model_.stack.zero,
         .optimizer = *model_.stack.optimizer,
         .delayed_scaling = model_.stack.delayed_scaling.get(),
         .offload_stores = model_.offload_stores,
         .extras = extras_,
         .model_form = form_,
         .frozen_source = frozen_source,
         .initial_adapter = beginning.initial_adapter(),
         .adapter_configs = adapter_configs(config, inputs),
         .faults = job.faults,
         .deadline = deadline,
         .crash_report = attempt.crash_report,
         .watchdog = *job.watchdog,
         .hosts = hosts_,
         .resumed_from = beginning.resumed_from(),
         .resumed_texts = beginning.resumed_texts(),
         .peak_operations = peak_operations_,
         .tracked_run = tracked_run(context, progress.step),
         .rows_file = inputs.data.training.front().name(),
         .compute_references = [this] { return compute_references(); }});
    if (choices.recorder && context.world.is_root())
        report_replays(model_.stack.transformer.replays());
    return ending;
}

}  // namespace ringshard::run
