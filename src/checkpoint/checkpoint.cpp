#include "ringshard/checkpoint/checkpoint.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "range_check.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "state_exchange.hpp"
#include "stored_parts.hpp"

namespace ringshard::checkpoint {

namespace {

// Nothing where it is not what texts_of() of a save writes.
std::optional<RunSums> read_sums(const nlohmann::json& read) {
    const auto number = [&](const char* name) {
        return read.is_object() ? read.value(name, nlohmann::json()) : nlohmann::json();
    };
    const nlohmann::json loss = number("loss");
    const nlohmann::json num_losses = number("num_losses");
    const nlohmann::json operations = number("operations");
    if (!loss.is_number() || !num_losses.is_number_integer() || !operations.is_number())
        return std::nullopt;
    return RunSums{loss.get<double>(), num_losses.get<int64_t>(), operations.get<double>()};
}

// Likewise.
std::optional<optim::PlateauState> read_plateau(const nlohmann::json& read) {
    const auto field = [&](const char* name) {
        return read.is_object() ? read.value(name, nlohmann::json()) : nlohmann::json();
    };
    const nlohmann::json best = field("best");
    if (!field("rate").is_number() || !(best.is_number() || best.is_null()) ||
        !field("bad_evaluations").is_number_integer() || !field("cooldown").is_number_integer())
        return std::nullopt;
    return optim::PlateauState{field("rate").get<double>(),
                               best.is_null() ? std::nullopt : std::optional(best.get<double>()),
                               field("bad_evaluations").get<int64_t>(),
                               field("cooldown").get<int64_t>()};
}

Expected<Progress> to_progress(const StateFile& state, const std::filesystem::path& file) {
    const auto damaged = [&](const std::string& what) {
        return Failure{ExitCode::bad_data, format_text("{}: {}", file.string(), what)};
    };
    for (const auto* name : {"format_version", "step", "epoch", "samples_done", "num_tokens"}) {
        const auto found = state.numbers.find(name);
        if (found == state.numbers.end())
            return damaged(format_text("has no whole number {}", name));
        if (found->second < 0)
            return damaged(format_text("{} = {}: is below 0", name, found->second));
    }
    if (state.numbers.at("format_version") != format_version)
        return damaged(format_text("is of format version {}, and this program reads {}",
                                   state.numbers.at("format_version"), format_version));
    Progress progress{state.numbers.at("step"),
                      {state.numbers.at("epoch"), state.numbers.at("samples_done")},
                      state.numbers.at("num_tokens")};
    if (const auto sums = state.texts.find(run_sums_text); sums != state.texts.end())
        progress.sums = read_sums(json_or_null<nlohmann::json>(sums->second));
    if (const auto plateau = state.texts.find(plateau_text); plateau != state.texts.end()) {
        progress.plateau = read_plateau(json_or_null<nlohmann::json>(plateau->second));
        if (!progress.plateau)
            return damaged(format_text("text {} is no state of a learning rate", plateau_text));
    }
    const auto places = state.texts.find(adapter_places_text);
    if (places == state.texts.end()) return progress;
    const auto read = json_or_null<nlohmann::json>(places->second);
    if (!read.is_array()) return damaged(format_text("text {} is no list", adapter_places_text));
    for (const auto& place : read) {
        Progress::OfAdapter& adapter = progress.adapters.emplace_back();
        for (const auto& [name, number] : {std::pair{"epoch", &adapter.data.epoch},
                                           std::pair{"samples_done", &adapter.data.samples_done},
                                           std::pair{"num_tokens", &adapter.num_tokens}}) {
            const bool is_there = place.is_object() && place.contains(name) &&
                                  place[name].is_number_integer() &&
                                  place[name].get<int64_t>() >= 0;
            if (!is_there)
                return damaged(format_text("text {} has no {}", adapter_places_text, name));
            *number = place[name].get<int64_t>();
        }
        if (place.contains("sums")) adapter.sums = read_sums(place["sums"]);
        if (place.contains("plateau")) adapter.plateau = read_plateau(place["plateau"]);
        if (!place.contains("last_step")) continue;
        if (!place["last_step"].is_number_integer() || place["last_step"].get<int64_t>() < 1)
            return damaged(format_text("text {}: last_step is no step", adapter_places_text));
        adapter.last_step = place["last_step"].get<int64_t>();
    }
    return progress;
}

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
    const auto progress = to_progress(state.value(), file);
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
    checkpoint.progress = to_progress(checkpoint.state, folder / state_name).value();

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

std::string to_text(const std::vector<int64_t>& shape) {
    std::vector<std::string> sizes;
    for (const int64_t size : shape) sizes.push_back(concat(size));
    return format_text("[{}]", join(sizes, ", "));
}

}  // namespace

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
            return Failure{ExitCode::bad_data,
                           format_text("{}: {} has the shape {}, and the run asks for {}: {}", file,
                                       name, to_text(found->second.shape), to_text(shape), whose)};
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
                                                const comm::Group& group,
                                                std::optional<size_t> adapter) {
    return comm::first_failure(
        group, read_shards(checkpoint, zero, nullptr, group.flight_recorder().bytes(), adapter));
}

}  // namespace ringshard::checkpoint
