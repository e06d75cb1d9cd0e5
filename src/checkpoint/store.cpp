#include "ringshard/checkpoint/store.hpp"

#include <nlohmann/json.hpp>

#include "publish.hpp"
#include "range_check.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "state_exchange.hpp"

namespace ringshard::checkpoint {

using nlohmann::json;

namespace {

const char* const state_name = "state.h5";
constexpr int64_t format_version = 1;

std::map<std::string, int64_t> to_numbers(const Progress& progress, int64_t attempt) {
    return {{"format_version", format_version},
            {"attempt", attempt},
            {"step", progress.step},
            {"epoch", progress.data.epoch},
            {"samples_done", progress.data.samples_done},
            {"num_tokens", progress.num_tokens}};
}

Expected<Progress> to_progress(const StateFile& state, const std::filesystem::path& file) {
    const auto damaged = [&](const auto&... what) {
        return Failure{ExitCode::bad_data, concat(file.string(), ": ", what...)};
    };
    for (const auto* name : {"format_version", "step", "epoch", "samples_done", "num_tokens"}) {
        const auto found = state.numbers.find(name);
        if (found == state.numbers.end()) return damaged("has no whole number ", name);
        if (found->second < 0) return damaged(name, " = ", found->second, ": is below 0");
    }
    if (state.numbers.at("format_version") != format_version)
        return damaged("is of format version ", state.numbers.at("format_version"),
                       ", and this program reads ", format_version);
    return Progress{state.numbers.at("step"),
                    {state.numbers.at("epoch"), state.numbers.at("samples_done")},
                    state.numbers.at("num_tokens")};
}

// What one process can see of a checkpoint without reading its elements.
struct Outline {
    StateFile state;
    std::vector<WrittenRange> ranges;
};

Expected<Outline> read_outline(const std::filesystem::path& folder,
                               const std::vector<shard::FlatUnit>& units) {
    const auto file = folder / state_name;
    auto manifest = read_manifest(folder);
    if (!manifest) return manifest.failure();
    auto state = open_state_file(file);
    if (!state) return state.failure();
    const auto progress = to_progress(state.value(), file);
    if (!progress) return progress.failure();
    if (progress.value().step != manifest.value().step)
        return Failure{ExitCode::bad_data,
                       concat(file.string(), ": is of step ", progress.value().step,
                              ", and its manifest.json of step ", manifest.value().step)};
    if (auto failure = check_datasets(file, state.value(), units)) return *failure;
    if (auto failure = check_coverage(file, state.value(), manifest.value().ranges))
        return *failure;
    return Outline{std::move(state).value(), std::move(manifest).value().ranges};
}

}  // namespace

comm::Agreed<Store> Store::open(std::filesystem::path output_dir, const comm::Group& world) {
    std::optional<Failure> failure;
    int64_t attempt = 0;
    if (world.is_root()) {
        const auto claimed = claim_attempt(output_dir);
        if (claimed) {
            attempt = claimed.value();
            remove_leftovers(output_dir, attempt);
        } else {
            failure = claimed.failure();
        }
    }
    if (const auto agreed = comm::first_failure(world, failure)) return *agreed;
    return Store(std::move(output_dir), world.maximum(attempt), world);
}

comm::Agreed<Checkpoint> Store::check(const std::filesystem::path& folder,
                                      const std::vector<shard::FlatUnit>& units) const {
    std::optional<Failure> failure;
    Outline outline;
    if (world_.is_root()) {
        auto read = read_outline(folder, units);
        if (read)
            outline = std::move(read).value();
        else
            failure = read.failure();
    }
    if (const auto agreed = comm::first_failure(world_, failure)) return *agreed;
    const StateFile state = broadcast_layout(outline.state, world_);
    const auto file = folder / state_name;

    // Every rank reads its share of the file once.
    const auto ranges = ranges_from_text(world_.broadcast(to_text(outline.ranges)));
    failure = check_content(file, ranges, world_.rank(), world_.size());
    if (const auto agreed = comm::first_failure(world_, failure)) return *agreed;
    return Checkpoint{folder, state, to_progress(state, file).value()};
}

comm::Agreed<std::optional<Checkpoint>> Store::newest(const std::vector<shard::FlatUnit>& units,
                                                      std::vector<std::string>& warnings) const {
    std::vector<std::string> damaged;
    json folders = json::array();
    if (world_.is_root())
        for (const CheckpointEntry& entry : valid_checkpoints(output_dir_, damaged))
            folders.push_back(entry.folder.string());
    folders = json::parse(world_.broadcast(folders.dump()));
    for (const json& folder : folders) {
        auto checked = check(folder.get<std::string>(), units);
        if (checked) {
            warnings.insert(warnings.end(), damaged.begin(), damaged.end());
            return std::optional(std::move(checked).value());
        }
        damaged.push_back(checked.failure().message());
    }
    std::optional<Failure> failure;
    if (!damaged.empty())
        failure =
            Failure{ExitCode::bad_data,
                    concat(output_dir_.string(), ": no checkpoint of this run is good:\n  ",
                           join(damaged, "\n  "),
                           "\nname another one with resume_from_checkpoint, or begin again with "
                           "--resume_from_checkpoint never")};
    if (const auto agreed = comm::first_failure(world_, failure)) return *agreed;
    return std::optional<Checkpoint>();
}

std::optional<comm::AgreedFailure> Store::load(const Checkpoint& checkpoint, shard::Zero& zero,
                                               optim::AdamW& optimizer) const {
    const auto failure =
        read_ranges(checkpoint.folder / state_name, checkpoint.state, zero, optimizer);
    if (const auto agreed = comm::first_failure(world_, failure)) return agreed;
    optimizer.set_steps_done(checkpoint.progress.step);
    return std::nullopt;
}

std::optional<comm::AgreedFailure> Store::record_start(int64_t step) const {
    std::optional<Failure> failure;
    if (world_.is_root()) failure = checkpoint::record_start(output_dir_, attempt_, step);
    return comm::first_failure(world_, failure);
}

comm::Agreed<std::vector<std::string>> Store::save(const Progress& progress,
                                                   const shard::Zero& zero, optim::AdamW& optimizer,
                                                   const Extras& extras, const Retention& retention,
                                                   Faults& faults) const {
    const Publication publication(output_dir_, progress.step, attempt_);
    const auto file = publication.temporary() / state_name;
    // What failed because a newer attempt has cleared it away is told as that.
    const auto agree =
        [&](const std::optional<Failure>& mine) -> std::optional<comm::AgreedFailure> {
        const auto failed = comm::first_failure(world_, mine);
        if (!failed) return std::nullopt;
        std::optional<Failure> superseded;
        if (world_.is_root()) {
            publication.abandon();
            superseded = check_newest(output_dir_, attempt_);
        }
        const auto why = comm::first_failure(world_, superseded);
        return why ? why : failed;
    };

    // One rank lays the file out and tells the others where everything goes.
    std::optional<Failure> failure;
    StateFile layout;
    if (world_.is_root()) {
        failure = publication.begin(extras.files);
        if (!failure) {
            auto made = create_state_file(file, all_datasets(zero.units()),
                                          to_numbers(progress, attempt_), extras.texts);
            if (made)
                layout = std::move(made).value();
            else
                failure = made.failure();
        }
    }
    if (const auto agreed = agree(failure)) return *agreed;
    layout = broadcast_layout(layout, world_);
    faults.reach("save_begun");

    // Every rank writes what is its own.
    std::vector<WrittenRange> ranges;
    failure = write_ranges(file, layout, zero, optimizer, ranges);
    if (const auto agreed = agree(failure)) return *agreed;
    faults.reach("save_written");

    // All of it is on disk: now it may get its name.
    std::vector<std::string> warnings;
    const std::vector<std::string> ranges_of_all = world_.gather_to_root(to_text(ranges));
    if (world_.is_root()) failure = publication.finish(ranges_of_all, faults, warnings);
    if (const auto agreed = agree(failure)) return *agreed;

    if (world_.is_root() && retention.limit)
        if (const auto kept = keep_newest(output_dir_, retention, attempt_))
            warnings.push_back(kept->message);
    return warnings;
}

}  // namespace ringshard::checkpoint
