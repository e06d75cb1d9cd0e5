#include "ringshard/checkpoint/store.hpp"

#include <nlohmann/json.hpp>

#include "publish.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "state_exchange.hpp"

namespace ringshard::checkpoint {

using nlohmann::json;

namespace {

std::map<std::string, int64_t> to_numbers(const Progress& progress, int64_t attempt) {
    return {{"format_version", format_version},
            {"attempt", attempt},
            {"step", progress.step},
            {"epoch", progress.data.epoch},
            {"samples_done", progress.data.samples_done},
            {"num_tokens", progress.num_tokens}};
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
    return check_checkpoint(folder, units, Extent::everything, world_);
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
        read_ranges(checkpoint.folder / state_name, checkpoint.state, zero, &optimizer);
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
            auto made = create_state_file(file, all_datasets(zero.units(), Extent::everything),
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
