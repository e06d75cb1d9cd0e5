#include "train_command.hpp"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <iostream>

#include "check_plan.hpp"
#include "curve.hpp"
#include "library_versions.hpp"
#include "open_recorder.hpp"
#include "open_scratch.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/cli/tell.hpp"
#include "ringshard/config/option_table.hpp"
#include "ringshard/data/loader.hpp"
#include "ringshard/device/host.hpp"
#include "ringshard/job/stop_signals.hpp"
#include "ringshard/train/compute_rate.hpp"
#include "ringshard/train/metrics.hpp"
#include "ringshard/train/phase_marks.hpp"
#include "ringshard/train/training_loop.hpp"
#include "ringshard/watch/watchdog.hpp"
#include "run_data.hpp"
#include "run_record.hpp"
#include "run_state.hpp"
#include "start_up.hpp"

namespace ringshard::cli {

namespace {

// RINGSHARD_TEST_COMM_DELAY_US makes messages late, to see what hides behind the computation.
std::chrono::microseconds test_delay(const Environment& environment) {
    const auto text = environment.find("RINGSHARD_TEST_COMM_DELAY_US");
    return std::chrono::microseconds(text ? read_whole_number(*text).value_or(0) : 0);
}

// RINGSHARD_TEST_FREE_MEMORY makes the host small.
std::function<int64_t()> free_host_memory(const Environment& environment) {
    const auto text = environment.find("RINGSHARD_TEST_FREE_MEMORY");
    if (!text) return device::free_host_memory;
    return [bytes = read_whole_number(*text).value_or(0)] { return bytes; };
}

// RINGSHARD_TEST_DEVICE_MEMORY makes the plan believe that there is less of it.
int64_t device_memory(const Environment& environment) {
    const auto text = environment.find("RINGSHARD_TEST_DEVICE_MEMORY");
    return text ? read_whole_number(*text).value_or(0) : device::free_host_memory();
}

// RINGSHARD_TEST_RANKS_PER_NODE makes several nodes of one host.
checkpoint::SaveOptions save_options(const EngineCall& call) {
    const config::Config& config = call.settings.values;
    const auto ranks_per_node = call.environment.find("RINGSHARD_TEST_RANKS_PER_NODE");
    return {
        .one_file_per_node = config.parallel.fsdp_state_dict_type == config::StateDictType::sharded,
        .through_mpio = config.checkpoint.hdf5_io == config::Hdf5Io::mpio,
        .hints = config.checkpoint.hdf5_hint,
        .ranks_per_node = ranks_per_node ? read_whole_number(*ranks_per_node) : std::nullopt};
}

Expected<model::ModelSpec> read_spec(const std::filesystem::path& folder, int64_t ulysses,
                                     const config::Settings& settings) {
    const auto spec = model::read_model_spec(folder / "config.json");
    if (!spec) return spec;
    const attention::HeadCounts& heads = spec.value().heads;
    const std::string why_not = attention::why_heads_do_not_split(heads, ulysses);
    if (why_not.empty()) return spec;
    std::vector<std::string> sizes;
    for (const int64_t size : attention::ulysses_sizes(heads)) sizes.push_back(concat(size));
    return Failure{ExitCode::settings,
                   concat("sp_size = ", ulysses, " [", settings.origin_of("sp_size").place,
                          "]: ", why_not, "; sizes that work with this model: ", join(sizes, ", "),
                          "; use cp_size for the rest")};
}

}  // namespace

int run_train(const EngineCall& call) {
    const c10::InferenceMode no_autograd;
    const comm::Group& world = call.world;
    const config::Config& config = call.settings.values;
    job::note_warnings();  // a warning that comes before the first step is not lost
    const job::Deadline deadline(world.is_root() ? job::read_slurm(call.environment) : job::Slurm(),
                                 config.run.max_hours);
    auto faults = comm::agreed(world, Faults::read(call.environment, world.rank()));
    if (!faults) return tell(faults.failure(), world);
    watch::Watchdog watchdog(world, config.run.hang_timeout_s);
    world.journal().doing("starting");
    const auto place = start_up(call);
    if (!place) return tell(place.failure(), world);
    const StartUp& here = place.value();
    print_start(call, here);
    const auto recorder = open_recorder(call, here);
    if (!recorder) return tell(recorder.failure(), world);
    const mesh::Mesh mesh(world, here.shape, here.device,
                          {test_delay(call.environment), here.shares_gpus});

    const HubCache hub(call.environment);
    const auto folder =
        comm::agreed(world, hub.model_folder(config.model.model_name_or_path,
                                             config.model.model_revision, "model_name_or_path"));
    if (!folder) return tell(folder.failure(), world);
    const auto spec =
        comm::agreed(world, read_spec(folder.value(), here.shape.ulysses, call.settings));
    if (!spec) return tell(spec.failure(), world);
    world.journal().doing("preparing data");
    faults.value().reach("start");
    const auto data = prepare_run_data(call, hub, here.num_threads, spec.value());
    if (!data) return tell(data.failure(), world);
    const data::Rows& rows = data.value().training;
    data::Loader loader(rows, data::make_dealing(config, rows, here.shape), mesh.data().rank(),
                        config.training.gradient_accumulation_steps);

    const auto check_memory = [&] {
        return check_plan(call, here, spec.value(), rows, device_memory(call.environment));
    };
    if (config.run.dry_run) {
        if (const auto failure = check_memory()) return tell(*failure, world);
        if (world.is_root()) std::cerr << "dry_run: this run can begin\n";
        return number(ExitCode::done);
    }
    watchdog.begin(watch::Work::other);
    world.journal().doing("loading");
    faults.value().reach("load");
    auto units = model::make_units(spec.value(), here.shape.zero());
    const Curve curve = curve_of(call.settings, here.shape, rows);
    const RunStart start{call, folder.value(), spec.value(), curve,
                         train::count_steps(config.training, loader.steps_per_epoch())};
    std::optional<Attempt> attempt;
    if (const auto failure = begin_attempt(attempt, start, units, Time::first))
        return tell(*failure, world);
    if (const auto failure = check_memory()) return tell(*failure, world);
    auto companions = read_companions(world, folder.value());
    if (!companions) return tell(companions.failure(), world);

    const bool is_bf16 = config.training.mixed_precision == config::Precision::bf16;
    const bool reduces_bf16 = config.parallel.reduce_dtype == config::NumberType::bf16;
    const mesh::Cuts cuts = mesh::cuts_of(config.parallel);
    auto scratch = open_scratch(call, here, cuts);
    if (!scratch) return tell(scratch.failure(), world);
    const offload::Scratch& depots = scratch.value();
    shard::Zero zero(
        std::move(units), cuts,
        {is_bf16 ? at::kBFloat16 : at::kFloat, reduces_bf16 ? at::kBFloat16 : at::kFloat}, mesh,
        {depots.weights.get(), depots.optimizer.get()});
    optim::AdamW optimizer(zero, config.training, depots.optimizer.get());
    if (const auto failure = allocate(scratch.value(), call)) return tell(*failure, world);
    train::PhaseMarks marks(here.device);
    device::tell_what_is_held([&] { return train::tell_held(zero, optimizer); });
    const model::Transformer transformer(
        spec.value(), zero, mesh,
        {.policy = config.training.activations_kept(),
         .loss = {config.training.loss_type == config::LossType::dft,
                  config.training.label_smoothing_factor},
         .travel = model::travel_of(config),
         .activations = depots.activations.get(),
         .recorder = recorder.value().get(),
         .note = [&](const std::string& what) { marks.begins(what); }});
    train::Trainer trainer(config.training, world, mesh, loader, transformer, zero, optimizer);
    std::optional<train::Evaluator> evaluator;
    if (data.value().evaluation)
        evaluator.emplace(*data.value().evaluation, config.evaluation.per_device_eval_batch_size,
                          world, mesh, transformer);
    const double peak_operations = train::measured_peak(here.device, zero.compute_type());
    const std::vector<std::string> hosts = world.gather(comm::host_name());
    for (;;) {
        const auto progress =
            load_state(call, attempt->origin, attempt->store, spec.value().tied, zero, optimizer);
        if (!progress) return tell(progress.failure(), world);
        attempt->origin = {};  // the pretrained files are no longer needed
        trainer.go_on_from(progress.value());
        if (const auto failure =
                write_run_record(call, here, attempt->store.attempt(), trainer.num_steps()))
            return tell(*failure, world);
        checkpoint::Saver saver(attempt->store, save_options(call), world, faults.value());
        const auto ending = train::train_to_the_end(
            {.config = config,
             .world = world,
             .trainer = trainer,
             .evaluator = evaluator ? &*evaluator : nullptr,
             .store = attempt->store,
             .saver = saver,
             .free_host_memory = free_host_memory(call.environment),
             .zero = zero,
             .optimizer = optimizer,
             .scratch = scratch.value(),
             .extras = {companions.value(),
                        {{"settings", config::print_yaml(call.settings, config::OptionTable())},
                         {"curve", to_text(curve)},
                         {"versions", versions_text()},
                         {"mesh", to_text(here.shape)}}},
             .faults = faults.value(),
             .deadline = deadline,
             .crash_report = attempt->crash_report,
             .watchdog = watchdog,
             .hosts = hosts,
             .peak_operations = peak_operations});
        note_end(*attempt, ending, world);
        if (recorder.value() && world.is_root()) tell_replays(transformer.replays());
        if (!ending) return tell(ending.failure(), world);
        if (ending.value() == train::Ending::complete) return number(ExitCode::done);
        world.journal().doing("going back to the newest checkpoint");
        if (const auto failure = begin_attempt(attempt, start, zero.units(), Time::again))
            return tell(*failure, world);
    }
}

}  // namespace ringshard::cli
