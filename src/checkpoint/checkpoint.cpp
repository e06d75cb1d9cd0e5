#include "ringshard/checkpoint/checkpoint.hpp"

#include "range_check.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "state_exchange.hpp"

namespace ringshard::checkpoint {

namespace {

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

void leave_out_moments(Outline& outline) {
    const auto is_weight = [](const std::string& dataset) {
        return dataset.starts_with(weights_group);
    };
    std::erase_if(outline.state.datasets,
                  [&](const auto& entry) { return !is_weight(entry.first); });
    std::erase_if(outline.ranges, [&](const auto& range) { return !is_weight(range.dataset); });
}

Expected<Outline> read_outline(const std::filesystem::path& folder,
                               const std::vector<shard::FlatUnit>& units, Extent extent) {
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
    Outline outline{std::move(state).value(), std::move(manifest).value().ranges};
    if (extent == Extent::weights) leave_out_moments(outline);
    if (auto failure = check_datasets(file, outline.state, units, extent)) return *failure;
    if (auto failure = check_coverage(file, outline.state, outline.ranges)) return *failure;
    return outline;
}

}  // namespace

comm::Agreed<Checkpoint> check_checkpoint(const std::filesystem::path& folder,
                                          const std::vector<shard::FlatUnit>& units, Extent extent,
                                          const comm::Group& group) {
    std::optional<Failure> failure;
    Outline outline;
    if (group.is_root()) {
        auto read = read_outline(folder, units, extent);
        if (read)
            outline = std::move(read).value();
        else
            failure = read.failure();
    }
    if (const auto agreed = comm::first_failure(group, failure)) return *agreed;
    const StateFile state = broadcast_layout(outline.state, group);
    const auto file = folder / state_name;

    // Every rank reads its share of what is wanted once.
    const auto ranges = ranges_from_text(group.broadcast(to_text(outline.ranges)));
    failure = check_content(file, ranges, group.rank(), group.size());
    if (const auto agreed = comm::first_failure(group, failure)) return *agreed;
    return Checkpoint{folder, state, to_progress(state, file).value()};
}

std::optional<comm::AgreedFailure> load_weights(const Checkpoint& checkpoint, shard::Zero& zero,
                                                const comm::Group& group) {
    return comm::first_failure(
        group, read_ranges(checkpoint.folder / state_name, checkpoint.state, zero, nullptr));
}

}  // namespace ringshard::checkpoint
