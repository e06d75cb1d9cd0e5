#include "train_command.hpp"

#include <c10/core/InferenceMode.h>

#include <iostream>

#include "adopted_text.hpp"
#include "check_plan.hpp"
#include "cpu_gemm.hpp"
#include "curve.hpp"
#include "library_versions.hpp"
#include "model_card.hpp"
#include "model_in_training.hpp"
#include "open_recorder.hpp"
#include "open_scratch.hpp"
#include "ringshard/cli/tell.hpp"
#include "ringshard/config/option_table.hpp"
#include "ringshard/data/loader.hpp"
#include "ringshard/device/host.hpp"
#include "ringshard/job/stop_signals.hpp"
#include "ringshard/train/compute_rate.hpp"
#include "ringshard/train/training_loop.hpp"
#include "ringshard/watch/watchdog.hpp"
#include "run_record.hpp"
#include "run_state.hpp"
#include "start_up.hpp"
#include "written_model.hpp"

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

// RINGSHARD_TEST_SHORTEST_LIMIT_S, RINGSHARD_TEST_OTHER_LIMIT_S and RINGSHARD_TEST_ASK_EVERY_S make
// the watchdog impatient.
watch::Pace watch_pace(const Environment& environment) {
    watch::Pace pace;
    const auto read = [&](const char* name, double& seconds) {
        if (const auto text = environment.find(name))
            if (const auto number = read_whole_number(*text))
                seconds = static_cast<double>(*number);
    };
    read("RINGSHARD_TEST_SHORTEST_LIMIT_S", pace.shortest_limit);
    read("RINGSHARD_TEST_OTHER_LIMIT_S", pace.other_limit);
    read("RINGSHARD_TEST_ASK_EVERY_S", pace.between_questions);
    return pace;
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

// What checkpoints hold beside tensors and progress.
checkpoint::Extras extras_of(const EngineCall& call, const StartUp& here, const Curve& curve,
                             const std::map<std::string, std::string>& companions) {
    return {companions,
            {{"settings", config::print_yaml(call.settings, config::OptionTable())},
             {"curve", to_text(curve)},
             {"versions", versions_text()},
             {"mesh", to_text(here.shape)}}};
}

using MaybeFailure = std::optional<comm::AgreedFailure>;

Time first_time(const RunEntry& entry) {
    return entry.follows_itself() ? Time::again : Time::first;
}

// How a run begins: state in memory, and an attempt that is claimed. Collective over the world.
class Beginning {
public:
    Beginning(const RunStart& start, RunEntry& entry, ModelInTraining& model, Faults& faults,
              watch::Watchdog& watchdog)
        : start_(start), entry_(entry), model_(model), faults_(faults), watchdog_(watchdog) {}

    // Loads first and claims last: until then this start can fail, and another job goes on.
    comm::Agreed<checkpoint::Progress> first(Origin origin) {
        auto loaded = load(std::move(origin));
        if (!loaded) return loaded;
        return after_claim([&] {
            // A job that was replaced may have saved meanwhile.
            if (!entry_.finds_other_checkpoints(world())) return loaded;
            return load_newest(first_time(entry_));
        });
    }
    // Goes back to the newest checkpoint, as a new attempt.
    comm::Agreed<checkpoint::Progress> again() {
        return after_claim([&] { return load_newest(Time::again); });
    }

    Attempt& attempt() { return *attempt_; }

private:
    const comm::Group& world() const { return start_.call.world; }

    comm::Agreed<checkpoint::Progress> load(Origin origin) {
        return load_state(start_.call, origin, start_.spec, model_.zero, *model_.optimizer);
    }
    comm::Agreed<checkpoint::Progress> load_newest(Time time) {
        auto origin = find_origin(start_, time);
        if (!origin) return origin.failure();
        return load(std::move(origin).value());
    }
    template <class Load>
    comm::Agreed<checkpoint::Progress> after_claim(Load load) {
        faults_.reach("claim");
        if (const auto failure = claim_attempt(attempt_, entry_, world(), watchdog_))
            return *failure;
        comm::Agreed<checkpoint::Progress> progress = load();
        if (progress)
            if (const auto failure = attempt_->store.record_start(progress.value().step))
                progress = *failure;
        if (!progress) note_end(*attempt_, progress.failure(), world());
        return progress;
    }

    const RunStart& start_;
    RunEntry& entry_;
    ModelInTraining& model_;
    Faults& faults_;
    watch::Watchdog& watchdog_;
    std::optional<Attempt> attempt_;
};

MaybeFailure train(const EngineCall& call) {
    const comm::Group& world = call.world;
    const config::Config& config = call.settings.values;
    job::note_warnings();  // a warning that comes before the first step is not lost
    const job::Deadline deadline(world.is_root() ? job::read_slurm(call.environment) : job::Slurm(),
                                 config.run.max_hours);
    auto faults = comm::agreed(world, Faults::read(call.environment, world.rank()));
    if (!faults) return faults.failure();
    watch::Watchdog watchdog(world, config.run.hang_timeout_s, watch_pace(call.environment));

    world.journal().doing("starting");
    const auto start = start_up(call);
    if (!start) return start.failure();
    const StartUp& here = start.value();
    print_start(call, here);
    const auto recorder = open_recorder(call, here);
    if (!recorder) return recorder.failure();
    const mesh::Mesh mesh(world, here.shape, here.device,
                          {test_delay(call.environment), here.shares_gpus});
    const auto found = find_inputs(call, here, faults.value());
    if (!found) return found.failure();
    const RunInputs& inputs = found.value();
    const data::Rows& rows = inputs.data.training;
    if (const auto unused = check_rows_are_dealt(call.settings, rows.size(), here.shape.data()))
        return comm::found_by_all(*unused);
    const auto gemms = choose_gemms(call, here, inputs.spec);
    if (!gemms) return gemms.failure();
    data::Loader loader(rows, data::make_dealing(config, rows, here.shape), mesh.data_rank(),
                        config.training.gradient_accumulation_steps);
    const auto check_memory = [&] {
        return check_plan(call, here, inputs.spec, rows, device_memory(call.environment));
    };
    if (config.run.dry_run) {
        if (auto failure = check_memory()) return failure;
        if (world.is_root()) std::cerr << "dry_run: this run can begin\n";
        return std::nullopt;
    }

    watchdog.begin(watch::Work::other);
    world.journal().doing("loading");
    faults.value().reach("load");
    const Curve curve = curve_of(call.settings, here.shape, rows);
    const RunStart run{call, inputs.model, inputs.spec, curve,
                       train::count_steps(config.training, loader.steps_per_epoch())};
    auto entry = RunEntry::begin(call, curve);
    if (!entry) return entry.failure();
    auto origin = find_origin(run, first_time(entry.value()));
    if (!origin) return origin.failure();
    if (auto failure = check_memory()) return failure;
    auto companions = read_companions(world, inputs.model);
    if (!companions) return companions.failure();
    if (world.is_root()) companions.value()["config.json"] = inputs.spec.config_json;
    if (auto failure = adopt_text(call, companions.value())) return failure;
    if (world.is_root()) add_model_card(companions.value(), config, curve);
    auto scratch = open_scratch(call, here, mesh::cuts_of(config.parallel));
    if (!scratch) return scratch.failure();
    ModelInTraining model(call, mesh, inputs, loader, std::move(scratch).value(),
                          recorder.value().get(), gemms.value().gemms, watchdog);
    if (auto failure = allocate(model.scratch, call)) return failure;
    const model::StoredType written_type = find_written_type(call, companions.value());
    checkpoint::Extras extras = extras_of(call, here, curve, companions.value());
    if (config.checkpoint.save_model_in_checkpoints)
        if (auto failure = add_model(extras, model.zero.units(), written_type, world))
            return failure;
    const double peak_operations =
        train::measured_peak(gemms.value().gemms, here.device, model.zero.compute_type());
    const std::vector<std::string> hosts = world.gather_to_root(comm::host_name());

    Beginning beginning{run, entry.value(), model, faults.value(), watchdog};
    auto progress = beginning.first(std::move(origin).value());
    for (;;) {
        if (!progress) return progress.failure();
        Attempt& attempt = beginning.attempt();
        model.trainer.go_on_from(progress.value());
        if (auto failure = write_run_record(call, here, attempt.store.attempt(), run.num_steps,
                                            gemms.value().record)) {
            note_end(attempt, *failure, world);
            return failure;
        }
        checkpoint::Saver saver(attempt.store, save_options(call), world, faults.value());
        const auto ending =
            train::train_to_the_end({.config = config,
                                     .world = world,
                                     .trainer = model.trainer,
                                     .evaluator = model.evaluator ? &*model.evaluator : nullptr,
                                     .store = attempt.store,
                                     .saver = saver,
                                     .free_host_memory = free_host_memory(call.environment),
                                     .zero = model.zero,
                                     .optimizer = *model.optimizer,
                                     .scratch = model.scratch,
                                     .extras = extras,
                                     .model_type = written_type,
                                     .faults = faults.value(),
                                     .deadline = deadline,
                                     .crash_report = attempt.crash_report,
                                     .watchdog = watchdog,
                                     .hosts = hosts,
                                     .peak_operations = peak_operations});
        note_end(attempt, ending, world);
        if (recorder.value() && world.is_root()) tell_replays(model.transformer.replays());
        if (!ending) return ending.failure();
        if (ending.value() == train::Ending::complete) return std::nullopt;
        world.journal().doing("going back to the newest checkpoint");
        progress = beginning.again();
    }
}

}  // namespace

int run_train(const EngineCall& call) {
    const c10::InferenceMode no_autograd;
    const auto failure = train(call);
    return failure ? tell(*failure, call.world) : number(ExitCode::done);
}

}  // namespace ringshard::cli
