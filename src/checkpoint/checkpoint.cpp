#include "ringshard/checkpoint/checkpoint.hpp"

#include <set>

#include "progress_texts.hpp"
#include "range_check.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "state_exchange.hpp"
#include "stored_parts.hpp"

namespace ringshard::checkpoint {

namespace {

// Metadata of a checkpoint that one process reads, without its elements.
struct Outline {
    StateFile state;
    Manifest manifest;
};

void leave_out_moments(Outline& outline) {
    const auto is_weight = [](const std::string& dataset) {
        return dataset.starts_with(weights_group);
    };
    std::erase_if(outline.state.datasets,
                  [&](const auto& entry) { return !is_weight(entry.first); });
    std::erase_if(outline.manifest.ranges,
                  [&](const auto& range) { return !is_weight(range.dataset); });
}

Expected<Outline> read_outline(const std::filesystem::path& folder, Contents contents,
                               Verification verification) {
    const auto file = folder / state_name;
    auto manifest = read_manifest(folder);
    if (!manifest) return manifest.failure();
    // HDF5's library can crash on a damaged file, so check the bytes that it reads first. They
    // include those of the moments, which may be damaged if the caller needs only weights.
    if (verification == Verification::hashes && contents == Contents::everything)
        if (auto failure = check_metadata_hashes(folder, manifest.value())) return *failure;
    if (auto failure = check_file_hashes(folder, manifest.value())) return *failure;
    auto state = open_state_file(file);
    if (!state) return state.failure();
    const auto progress = read_progress(state.value(), file);
    if (!progress) return progress.failure();
    if (progress.value().step != manifest.value().step)
        return Failure{ExitCode::bad_data,
                       format_text("{}: is of step {}, and its manifest.json of step {}",
                                   file.string(), progress.value().step, manifest.value().step)};
    Outline outline{std::move(state).value(), std::move(manifest).value()};
    if (contents == Contents::weights) leave_out_moments(outline);
    if (auto failure = check_coverage(file, outline.state, outline.manifest)) return *failure;
    return outline;
}

// Distributes the ranges over the ranks, the same number to each. On rank 0; empty on other ranks.
std::vector<std::string> deal_out(const std::vector<WrittenRange>& ranges,
                                  const comm::Group& group) {
    std::vector<std::string> shares;
    const auto size = static_cast<size_t>(group.size());
    for (size_t rank = 0; group.is_root() && rank < size; ++rank) {
        std::vector<WrittenRange> share;
        for (size_t i = rank; i < ranges.size(); i += size) share.push_back(ranges[i]);
        shares.push_back(to_text(share));
    }
    return shares;
}

}  // namespace

comm::Agreed<Checkpoint> check_checkpoint(const std::filesystem::path& folder, Contents contents,
                                          Verification verification, const comm::Group& group) {
    std::optional<Failure> failure;
    Outline outline;
    if (group.is_root()) {
        auto read = read_outline(folder, contents, verification);
        if (read)
            outline = std::move(read).value();
        else
            failure = read.failure();
    }
    if (const auto agreed = comm::first_failure(group, failure)) return *agreed;
    Checkpoint checkpoint{.folder = folder, .state = broadcast_layout(outline.state, group)};
    checkpoint.stored = broadcast_parts(join_ranges(outline.manifest.ranges), group);
    checkpoint.progress = read_progress(checkpoint.state, folder / state_name).value();

    // Every rank reads its share of the needed ranges once.
    if (verification == Verification::hashes) {
        const auto share =
            ranges_from_text(group.scatter(deal_out(outline.manifest.ranges, group)));
        failure = check_content(folder, checkpoint.state, share, group.flight_recorder().bytes());
    }
    if (const auto agreed = comm::first_failure(group, failure)) return *agreed;
    return checkpoint;
}

namespace {

// The shapes of the datasets that a group has to have, by name.
using Shapes = std::map<std::string, std::vector<int64_t>>;

// Fails unless the checkpoint's group has exactly these datasets. `whose` says what has others.
std::optional<Failure> check_group(const Checkpoint& checkpoint, const std::string& group,
                                   const Shapes& shapes, const std::string& whose) {
    const auto file = (checkpoint.folder / state_name).string();
    for (const auto& [name, shape] : shapes) {
        const auto found = checkpoint.state.datasets.find(name);
        if (found == checkpoint.state.datasets.end())
            return Failure{ExitCode::bad_data,
                           format_text("{}: has no dataset {}: {}", file, name, whose)};
        if (found->second.shape != shape)
            return Failure{
                ExitCode::bad_data,
                format_text("{}: {} has the shape {}, and the run asks for {}: {}", file, name,
                            shape_text(found->second.shape), shape_text(shape), whose)};
    }
    for (const auto& [name, placed] : checkpoint.state.datasets)
        if (name.starts_with(group) && !shapes.contains(name))
            return Failure{
                ExitCode::bad_data,
                format_text("{}: has the dataset {}, and the run has no place for it: {}", file,
                            name, whose)};
    return std::nullopt;
}

}  // namespace

std::optional<Failure> check_fit(const Checkpoint& checkpoint,
                                 const std::vector<shard::FlatUnit>& units) {
    Shapes shapes;
    for (const shard::FlatUnit& unit : units)
        for (const shard::PlacedTensor& tensor : trained_tensors(unit))
            shapes[weights_group + tensor.spec.name] = tensor.spec.shape;
    return check_group(checkpoint, weights_group, shapes, "it is not of this model");
}

std::optional<Failure> check_roles(const Checkpoint& checkpoint, const FrozenWeights& frozen,
                                   const std::vector<shard::FlatUnit>& units) {
    const auto refuse = [&](const std::string& tensor, const char* then, const char* now) {
        return Failure{
            ExitCode::settings,
            format_text("{}: {} was {} when it was made, and freeze and train_only have it {} now; "
                        "give them as they were then, or begin another run in another output_dir "
                        "with this checkpoint as model_name_or_path",
                        checkpoint.folder.string(), tensor, then, now)};
    };
    for (const shard::FlatUnit& unit : units)
        for (const shard::PlacedTensor& tensor : unit.tensors()) {
            const std::string& name = tensor.spec.name;
            const bool was_frozen = frozen.tensors.contains(name);
            if (unit.is_trained() && was_frozen) return refuse(name, "frozen", "trained");
            if (!unit.is_trained() && !was_frozen) return refuse(name, "trained", "frozen");
        }
    return std::nullopt;
}

std::optional<Failure> check_states(const Checkpoint& checkpoint,
                                    const std::vector<shard::FlatUnit>& units,
                                    const optim::UpdateGroups& groups) {
    Shapes shapes;
    for (const shard::FlatUnit& unit : units)
        for (const shard::PlacedTensor& tensor : trained_tensors(unit))
            for (const optim::StateSpec& state : groups.states_of(unit.placement().updater))
                shapes[group_of_state(state.name) + tensor.spec.name] = state.shape_of(tensor);
    if (!shapes.empty() && contents_of(checkpoint) == Contents::weights)
        return Failure{ExitCode::bad_data,
                       format_text("{}: was made with save_only_model, and no run can go on from "
                                   "it; `trainer export` makes a model of it",
                                   (checkpoint.folder / state_name).string())};
    return check_group(checkpoint, optimizer_group, shapes,
                       "it has the states of another optimizer; give optim and lr_groups as they "
                       "were, or begin another run with this checkpoint as model_name_or_path");
}

Contents contents_of(const Checkpoint& checkpoint) {
    const auto& datasets = checkpoint.state.datasets;
    const bool has_moments = std::ranges::any_of(
        datasets, [](const auto& dataset) { return dataset.first.starts_with(optimizer_group); });
    return has_moments ? Contents::everything : Contents::weights;
}

std::optional<comm::AgreedFailure> load_weights(const Checkpoint& checkpoint, shard::Zero& zero,
                                                const comm::Group& group, size_t variant) {
    return comm::first_failure(
        group, read_shards(checkpoint, zero, nullptr, group.flight_recorder().bytes(), variant));
}

}  // namespace ringshard::checkpoint
