#include "ringshard/checkpoint/store.hpp"

#include <nlohmann/json.hpp>

#include "commit.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/shared_file.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "state_exchange.hpp"

namespace ringshard::checkpoint {

using nlohmann::json;

comm::Agreed<Store> Store::open(const comm::Group& world,
                                const std::function<Expected<Claim>()>& claim) {
    std::optional<Failure> failure;
    Claim claimed{{}, 0, ""};
    if (world.is_root()) {
        if (auto made = claim()) {
            claimed = std::move(made).value();
            remove_leftovers(claimed.output_dir, claimed.attempt);
        } else {
            failure = made.failure();
        }
    }
    if (const auto agreed = comm::first_failure(world, failure)) return *agreed;
    claimed.output_dir = world.broadcast(claimed.output_dir.string());
    claimed.attempt = world.maximum(claimed.attempt);
    claimed.token = world.broadcast(claimed.token);
    // Ranks of an earlier attempt have looked for this name, so NFS may have cached its absence.
    failure = wait_until_visible(attempt_folder(claimed.output_dir, claimed.attempt));
    if (const auto agreed = comm::first_failure(world, failure)) return *agreed;
    return Store(std::move(claimed), world);
}

comm::Agreed<Checkpoint> Reader::check(const std::filesystem::path& folder,
                                       Verification verification) const {
    return check_checkpoint(folder, Contents::everything, verification, world_);
}

comm::Agreed<std::optional<Checkpoint>> Reader::newest(int64_t num_steps, Verification verification,
                                                       std::vector<std::string>& warnings) const {
    std::vector<std::string> damaged;
    std::vector<CheckpointEntry> found;
    std::optional<Failure> failure;
    if (world_.is_root()) {
        auto valid = valid_checkpoints(output_dir(), damaged);
        if (valid)
            found = std::move(valid).value();
        else
            failure = valid.failure();
    }
    if (const auto agreed = comm::first_failure(world_, failure)) return *agreed;
    json folders = json::array();
    for (const CheckpointEntry& entry : found) {
        if (entry.has_moments || entry.step >= num_steps)
            folders.push_back({entry.folder.string(), entry.has_moments});
        else
            damaged.push_back(entry.folder.string() +
                              ": was made with save_only_model, and no run can go on from it");
    }
    folders = parse_json<json>(world_.broadcast(folders.dump())).value();
    for (const json& folder : folders) {
        auto checked = check_checkpoint(folder[0].get<std::string>(),
                                        folder[1] ? Contents::everything : Contents::weights,
                                        verification, world_);
        if (checked) {
            warnings.insert(warnings.end(), damaged.begin(), damaged.end());
            return std::optional(std::move(checked).value());
        }
        damaged.push_back(checked.failure().message());
    }
    if (!damaged.empty())
        failure = Failure{ExitCode::bad_data,
                          format_text("{}: no checkpoint of this run is good:\n"
                                      "  {}\n"
                                      "name another one with resume_from_checkpoint, or begin "
                                      "again with --resume_from_checkpoint never",
                                      output_dir().string(), join(damaged, "\n  "))};
    if (const auto agreed = comm::first_failure(world_, failure)) return *agreed;
    return std::optional<Checkpoint>();
}

std::optional<comm::AgreedFailure> Reader::load(const Checkpoint& checkpoint, shard::Zero& zero,
                                                optim::Optimizer& optimizer) const {
    const auto failure = read_shards(
        checkpoint, zero, contents_of(checkpoint) == Contents::everything ? &optimizer : nullptr,
        world_.flight_recorder().bytes());
    if (const auto agreed = comm::first_failure(world_, failure)) return agreed;
    optimizer.set_steps_done(checkpoint.progress.step);
    return std::nullopt;
}

std::optional<comm::AgreedFailure> Store::record_start(int64_t step) const {
    std::optional<Failure> failure;
    if (world_.is_root()) {
        failure = checkpoint::record_start(output_dir(), attempt(), step);
        if (!failure) failure = move_later_aside(output_dir(), step);
    }
    return comm::first_failure(world_, failure);
}

}  // namespace ringshard::checkpoint
