#include "ringshard/checkpoint/store.hpp"

#include <nlohmann/json.hpp>

#include "publish.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/comm/agree.hpp"
#include "state_exchange.hpp"

namespace ringshard::checkpoint {

using nlohmann::json;

namespace {

const char* const state_name = "state.h5";

std::map<std::string, int64_t> to_numbers(const Progress& progress, int64_t attempt) {
    return {{"format_version", 1},
            {"attempt", attempt},
            {"step", progress.step},
            {"epoch", progress.data.epoch},
            {"samples_done", progress.data.samples_done},
            {"num_tokens", progress.num_tokens}};
}

Expected<Progress> to_progress(const StateFile& state, const std::filesystem::path& file) {
    for (const auto* name : {"step", "epoch", "samples_done", "num_tokens"})
        if (!state.numbers.contains(name))
            return Failure{ExitCode::bad_data, concat(file.string(), ": has no attribute ", name)};
    return Progress{state.numbers.at("step"),
                    {state.numbers.at("epoch"), state.numbers.at("samples_done")},
                    state.numbers.at("num_tokens")};
}

}  // namespace

Expected<Store> Store::open(std::filesystem::path output_dir, const comm::Group& world) {
    std::optional<Failure> failure;
    int64_t attempt = 0;
    if (world.is_root()) {
        const auto claimed = claim_attempt(output_dir);
        if (claimed)
            attempt = claimed.value();
        else
            failure = claimed.failure();
    }
    if (const auto agreed = comm::first_failure(world, failure)) return *agreed;
    return Store(std::move(output_dir), world.maximum(attempt), world);
}

std::optional<CheckpointEntry> Store::newest(std::vector<std::string>& warnings) const {
    json found;
    if (world_.is_root()) {
        const auto valid = valid_checkpoints(output_dir_, warnings);
        if (!valid.empty())
            found = {valid.front().folder.string(), valid.front().step, valid.front().attempt};
    }
    found = json::parse(world_.broadcast(found.dump()));
    if (found.is_null()) return std::nullopt;
    return CheckpointEntry{found[0].get<std::string>(), found[1], found[2]};
}

std::optional<Failure> Store::record_start(int64_t step) const {
    std::optional<Failure> failure;
    if (world_.is_root()) failure = checkpoint::record_start(output_dir_, attempt_, step);
    return comm::first_failure(world_, failure);
}

std::optional<Failure> Store::save(const Progress& progress, const shard::Zero& zero,
                                   optim::AdamW& optimizer,
                                   const std::vector<std::filesystem::path>& files,
                                   const std::map<std::string, std::string>& texts) const {
    const Publication publication(output_dir_, progress.step, attempt_);
    const auto file = publication.temporary() / state_name;

    // One rank lays the file out and tells the others where everything goes.
    std::optional<Failure> failure;
    StateFile layout;
    if (world_.is_root()) {
        failure = publication.begin(files);
        if (!failure) {
            auto made =
                create_state_file(file, all_datasets(zero), to_numbers(progress, attempt_), texts);
            if (made)
                layout = std::move(made).value();
            else
                failure = made.failure();
        }
    }
    if (const auto agreed = comm::first_failure(world_, failure)) return agreed;
    layout = broadcast_layout(layout, world_);

    // Every rank writes what is its own.
    std::vector<WrittenRange> ranges;
    failure = write_ranges(file, layout, zero, optimizer, ranges);
    if (const auto agreed = comm::first_failure(world_, failure)) return agreed;

    // All of it is on disk: now it may get its name.
    const std::vector<std::string> ranges_of_all = world_.gather(to_text(ranges));
    if (world_.is_root()) failure = publication.finish(ranges_of_all);
    return comm::first_failure(world_, failure);
}

Expected<Progress> Store::load(const std::filesystem::path& checkpoint, shard::Zero& zero,
                               optim::AdamW& optimizer) const {
    const auto file = checkpoint / state_name;
    std::optional<Failure> failure;
    StateFile state;
    if (world_.is_root()) {
        auto opened = open_state_file(file);
        if (opened)
            state = std::move(opened).value();
        else
            failure = opened.failure();
        if (!failure) failure = check_datasets(file, state, zero);
    }
    if (const auto agreed = comm::first_failure(world_, failure)) return *agreed;
    state = broadcast_layout(state, world_);
    const auto progress = to_progress(state, file);
    if (!progress) return progress.failure();
    failure = read_ranges(file, state, zero, optimizer);
    if (const auto agreed = comm::first_failure(world_, failure)) return *agreed;
    optimizer.set_steps_done(progress.value().step);
    return progress.value();
}

}  // namespace ringshard::checkpoint
