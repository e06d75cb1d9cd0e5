#include "ringshard/run/run_state.hpp"

#include <iostream>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/hub/sidecar_files.hpp"
#include "ringshard/hub/weights.hpp"

namespace ringshard::run {

checkpoint::Verification verification_of(const CommandContext& context) {
    const auto how = context.settings.values.checkpoint.verify_checkpoint;
    return how == config::Verification::full ? checkpoint::Verification::hashes
                                             : checkpoint::Verification::sizes;
}

namespace {

// Checks the folder that resume_from_checkpoint names: its name is final, so the save has ended.
std::optional<Failure> check_name(const std::string& args, const std::filesystem::path& folder) {
    if (!folder_exists(folder))
        return Failure{ExitCode::missing_input,
                       format_text("resume_from_checkpoint = {}: there is no such folder", args)};
    const std::string name = folder.filename();
    if (number_in_name(name, "checkpoint-")) return std::nullopt;
    return Failure{
        ExitCode::bad_data,
        format_text("resume_from_checkpoint = {}{}; finished ones are named checkpoint-<step>",
                    args,
                    is_unfinished(name) ? ": it was never finished"
                                        : ": it is not the folder of a checkpoint")};
}

using MaybeCheckpoint = std::optional<checkpoint::Checkpoint>;

comm::Agreed<MaybeCheckpoint> find_newest(const CommandContext& context,
                                          const checkpoint::Reader& reader, int64_t num_steps,
                                          checkpoint::Verification verification) {
    std::vector<std::string> warnings;
    auto newest = reader.newest(num_steps, verification, warnings);
    for (const std::string& warning : warnings)
        if (context.world.is_root())
            std::cerr << "warning: checkpoint left out: " << warning << '\n';
    return newest;
}

comm::Agreed<MaybeCheckpoint> find_checkpoint(const CommandContext& context,
                                              const checkpoint::Reader& reader, int64_t num_steps,
                                              StartKind kind) {
    const comm::Group& world = context.world;
    const auto verification = verification_of(context);
    if (kind == StartKind::restart) {
        auto own = find_newest(context, reader, num_steps, verification);
        if (!own || own.value()) return own;
    }
    const std::string& args = context.settings.values.checkpoint.resume_from_checkpoint;
    const std::string word = lower_case(args);
    if (word == "never" || word == "false") return MaybeCheckpoint();
    if (word != "auto" && word != "true" && !word.empty()) {
        const std::filesystem::path folder = without_slash(args);
        if (const auto failure = comm::first_failure(
                world, world.is_root() ? check_name(args, folder) : std::nullopt))
            return *failure;
        auto checked = reader.check(folder, verification);
        if (!checked) return checked.failure();
        return std::optional(std::move(checked).value());
    }
    auto newest = find_newest(context, reader, num_steps, verification);
    if (newest && !newest.value() && word == "true")
        return comm::found_by_all(
            {ExitCode::missing_input,
             format_text("resume_from_checkpoint = true: {} holds no finished checkpoint; leave "
                         "the setting out to begin a run",
                         reader.output_dir().string())});
    return newest;
}

// Another model or other settings are no damage: an older checkpoint would not be better.
std::optional<Failure> check_suits(const RunStart& start, const checkpoint::Checkpoint& found,
                                   const std::vector<shard::FlatUnit>& units) {
    const config::Config& config = start.context.settings.values;
    const auto frozen = frozen_weights_of(found.state, found.folder.string());
    if (!frozen) return frozen.failure();
    const bool has_steps_left = found.progress.step < start.num_steps;
    for (const auto& failure :
         {check_roles(found, frozen.value(), units), check_fit(found, units),
          check_fingerprint(found, start.fingerprint, config.checkpoint.allow_changed,
                            start.context.world.is_root()),
          has_steps_left ? check_states(found, units, optim::UpdateGroups(config.training))
                         : std::nullopt})
        if (failure) return failure;
    return std::nullopt;
}

}  // namespace

comm::Agreed<Origin> find_origin(const RunStart& start, StartKind kind) {
    const CommandContext& context = start.context;
    const checkpoint::Reader reader(context.settings.values.run.output_dir, context.world);
    constexpr int64_t whole = 1;
    const std::vector<shard::FlatUnit> units = model::make_units(
        start.spec, whole, 1, false, optim::chooser_of(context.settings.values.training));
    auto checkpoint = find_checkpoint(context, reader, start.num_steps, kind);
    if (!checkpoint) return checkpoint.failure();
    Origin origin{.checkpoint = std::move(checkpoint).value()};
    if (origin.checkpoint)
        if (const auto failure = check_suits(start, *origin.checkpoint, units))
            return comm::found_by_all(*failure);
    if (origin.checkpoint && start.spec.frozen.empty()) return origin;
    const auto wanted = origin.checkpoint ? Pretrained::Wanted::frozen : Pretrained::Wanted::all;
    auto pretrained =
        Pretrained::open(start.model, start.spec, wanted, verification_of(context), context.world);
    if (!pretrained) return pretrained.failure();
    origin.pretrained = std::move(pretrained).value();
    if (origin.pretrained->holds_adapters())
        return comm::found_by_all(holds_an_adapter(start.model));
    if (const peft::LoraConfig& adapter = start.adapters.front().config;
        adapter.init.takes_from_weights()) {
        if (const auto failure =
                take_out_initial_adapter(context.settings.values, adapter, start.spec,
                                         origin.checkpoint ? &*origin.checkpoint : nullptr,
                                         *origin.pretrained, context.world))
            return *failure;
    } else if (!origin.checkpoint && start.spec.has_adapters()) {
        if (const auto failure = origin.pretrained->begin_adapters(
                start.spec, beginnings_of(start.adapters), context.world))
            return *failure;
    }
    return origin;
}

Attempt::Attempt(checkpoint::Store its_store, std::unique_ptr<checkpoint::AliveFile> its_alive_file,
                 const comm::Group& world)
    : store(std::move(its_store)),
      alive_file(std::move(its_alive_file)),
      crash_report(world, checkpoint::attempt_folder(store.output_dir(), store.attempt()) /
                              format_text("crash-rank{}.txt", world.rank())) {}

std::optional<comm::AgreedFailure> claim_attempt(std::optional<Attempt>& attempt, RunEntry& entry,
                                                 const comm::Group& world,
                                                 watch::Watchdog& watchdog) {
    // The watchdog must not take the attempt that is claimed here for another job's.
    watchdog.at_attempt(std::nullopt);
    std::unique_ptr<checkpoint::AliveFile> alive_file;
    auto store = checkpoint::Store::open(world, [&]() -> Expected<checkpoint::Claim> {
        auto claimed = attempt ? checkpoint::claim_next(attempt->store.claim()) : entry.claim();
        if (!claimed) return claimed;
        auto begun = entry.begin_alive_file(claimed.value());
        if (!begun) return begun.failure();
        alive_file = std::move(begun).value();
        return claimed;
    });
    if (!store) return store.failure();
    attempt.emplace(std::move(store).value(), std::move(alive_file), world);
    const checkpoint::Claim& claim = attempt->store.claim();
    watchdog.at_attempt(
        watch::Watchdog::Attempt{checkpoint::attempt_folder(claim.output_dir, claim.attempt),
                                 [claim] { return checkpoint::check_newest(claim); }});
    return std::nullopt;
}

comm::AgreedFailure unless_superseded(const Attempt& attempt, const comm::AgreedFailure& failure,
                                      const comm::Group& world) {
    if (failure.code() != ExitCode::io) return failure;
    const auto newer =
        comm::first_failure(world, world.is_root() ? checkpoint::check_newest(attempt.store.claim())
                                                   : std::optional<Failure>());
    return newer.value_or(failure);
}

void note_end(const Attempt& attempt, const comm::Agreed<train::Ending>& ending,
              const comm::Group& world) {
    using checkpoint::AttemptEnd;
    if (!world.is_root()) return;
    AttemptEnd end;
    if (!ending)
        end = {AttemptEnd::Kind::failure, ending.failure()};
    else if (ending.value() == train::Ending::rewind)
        end.kind = AttemptEnd::Kind::rewind;
    const auto& store = attempt.store;
    if (const auto failure = checkpoint::record_end(store.output_dir(), store.attempt(), end))
        std::cerr << "warning: " << failure->message << "; how this attempt ended is not noted\n";
}

comm::Agreed<LoadedState> load_state(const CommandContext& context, const Origin& origin,
                                     const model::ModelSpec& spec, shard::Zero& zero,
                                     optim::Optimizer& optimizer) {
    LoadedState loaded;
    if (origin.pretrained) {
        auto frozen = origin.pretrained->load(spec, zero, context.world);
        if (!frozen) return frozen.failure();
        loaded.frozen = std::move(frozen).value();
    }
    if (origin.checkpoint) {
        const checkpoint::Checkpoint& found = *origin.checkpoint;
        const auto then = frozen_weights_of(found.state, found.folder.string()).value();
        if (const auto changed = shard::first_changed(then.hashes(), loaded.frozen.hashes()))
            return comm::found_by_all(
                other_base(found.folder, then.base, loaded.frozen.base, *changed));
        const checkpoint::Reader reader(context.settings.values.run.output_dir, context.world);
        if (const auto failure = reader.load(found, zero, optimizer)) return *failure;
        loaded.progress = found.progress;
        if (context.world.is_root()) std::cerr << "resuming from " << found.folder.string() << '\n';
    } else {
        hub::set_added_rows(spec, zero, context.world);
        if (origin.pretrained && origin.pretrained->begins_adapters()) {
            zero.refresh_compute_weights();
            peft::set_magnitudes(origin.pretrained->with_begun_adapters(spec), zero);
        }
        if (optimizer.steps_done() > 0) optimizer.forget();
    }
    zero.refresh_compute_weights();
    return loaded;
}

comm::Agreed<std::map<std::string, std::string>> read_sidecar_files(
    const comm::Group& world, const std::filesystem::path& folder) {
    std::map<std::string, std::string> files;
    std::optional<Failure> failure;
    for (const auto* name : hub::sidecar_files) {
        if (!world.is_root() || !file_exists(folder / name)) continue;
        if (auto content = read_file(folder / name))
            files[name] = std::move(*content);
        else
            failure = Failure{ExitCode::bad_data, format_text("{}: is there and cannot be read",
                                                              (folder / name).string())};
    }
    if (const auto agreed = comm::first_failure(world, failure)) return *agreed;
    return files;
}

}  // namespace ringshard::run
