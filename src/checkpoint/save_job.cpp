#include "save_job.hpp"

#include <set>

#include "commit.hpp"
#include "node_files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/base/timer.hpp"
#include "write_model.hpp"
#include "write_pieces.hpp"

namespace ringshard::checkpoint {

namespace {

comm::Group make_node(const comm::Group& world, std::optional<int64_t> ranks_per_node) {
    const char* const name = "save of a host";
    return ranks_per_node ? world.split(world.rank() / *ranks_per_node, name)
                          : world.split_by_host(name);
}

// Numbers nodes by their first rank.
int64_t index_of(const comm::Group& world, const comm::Group& node) {
    const std::vector<int64_t> is_first = world.gather(int64_t{node.is_root() ? 1 : 0});
    const int64_t first = node.minimum(world.rank());
    int64_t index = 0;
    for (int64_t rank = 0; rank < first; ++rank) index += is_first[static_cast<size_t>(rank)];
    return index;
}

}  // namespace

SaveGroups::SaveGroups(const comm::Group& of_run, std::optional<int64_t> ranks_per_node)
    : world(of_run.split(0, "save")),
      node(make_node(world, ranks_per_node)),
      node_index(index_of(world, node)),
      num_nodes(world.sum(node.is_root() ? 1 : 0)) {}

namespace {

// A save in progress. run() is collective over the world of the groups.
class Saving {
public:
    Saving(const SaveJob& job, const SaveOptions& options, const SaveGroups& groups, Faults& faults)
        : job_(job),
          options_(options),
          groups_(groups),
          faults_(faults),
          commit_(job.claim, job.progress.step) {}

    std::optional<comm::AgreedFailure> run(SaveOutcome& outcome);
    const std::set<int64_t>& kept_steps() const { return notes_.kept_steps; }  // on rank 0

private:
    std::optional<Failure> begin();
    using MaybeFailure = std::optional<comm::AgreedFailure>;
    MaybeFailure write(std::vector<WrittenRange>& mine);
    MaybeFailure write_copy_of_weights();
    MaybeFailure commit(const std::vector<WrittenRange>& mine, SaveOutcome& outcome);
    comm::AgreedFailure give_up(const comm::AgreedFailure& failure) const;

    const SaveJob& job_;
    const SaveOptions& options_;
    const SaveGroups& groups_;
    Faults& faults_;
    Commit commit_;
    SaveNotes notes_;
};

// Called on rank 0 alone.
std::optional<Failure> Saving::begin() {
    if (job_.extras.make_notes) notes_ = job_.extras.make_notes();
    if (auto failure = commit_.begin(job_.extras.files)) return failure;
    for (const auto& [name, write] : notes_.files)
        if (auto failure = write(commit_.temporary() / name)) return failure;
    return lay_out_model(commit_.temporary(), job_.extras.model);
}

std::optional<comm::AgreedFailure> Saving::run(SaveOutcome& outcome) {
    const comm::Group& world = groups_.world;
    faults_.reach("save:begin");
    const auto begun = comm::first_failure(world, world.is_root() ? begin() : std::nullopt);
    if (begun) return give_up(*begun);
    std::vector<WrittenRange> mine;
    if (const auto failure = write(mine)) return give_up(*failure);
    faults_.reach("save:written");
    if (const auto failure = commit(mine, outcome)) return give_up(*failure);
    return std::nullopt;
}

std::optional<comm::AgreedFailure> Saving::write(std::vector<WrittenRange>& mine) {
    const auto lay_out = options_.one_file_per_node ? lay_out_file_of_node : lay_out_one_file;
    const comm::Group& writers = options_.one_file_per_node ? groups_.node : groups_.world;
    const auto work = lay_out(commit_.temporary(), job_, groups_, faults_);
    if (!work) return work.failure();
    auto written = comm::agreed(
        groups_.world,
        options_.through_mpio
            ? write_mpio(work.value(), options_.hints, writers, faults_)
            : write_direct(work.value(), faults_, groups_.world.flight_recorder().bytes()));
    if (!written) return written.failure();
    mine = std::move(written).value();
    if (job_.extras.model.empty()) return std::nullopt;
    return write_copy_of_weights();
}

Saving::MaybeFailure Saving::write_copy_of_weights() {
    const comm::Group& world = groups_.world;
    const auto& hashes = job_.extras.frozen_source.hashes;
    std::set<std::string> frozen;
    for (const auto& [name, hash] : hashes) frozen.insert(name);
    shard::TensorSums sums(frozen);
    if (const auto failure =
            comm::first_failure(world, write_model(commit_.temporary(), job_.extras, job_.pieces,
                                                   faults_, sums, world.flight_recorder().bytes())))
        return failure;
    if (frozen.empty()) return std::nullopt;
    const auto changed = shard::first_changed(hashes, sums.over(world));
    if (!changed) return std::nullopt;
    return comm::found_by_all(
        {ExitCode::bad_data,
         format_text("{} is frozen, and the files of the pretrained model hold another value of it "
                     "than when this run began: save_model_in_checkpoints cannot copy it",
                     *changed)});
}

// All of it is on disk: commit it.
std::optional<comm::AgreedFailure> Saving::commit(const std::vector<WrittenRange>& mine,
                                                  SaveOutcome& outcome) {
    const comm::Group& world = groups_.world;
    int64_t bytes = 0;
    for (const WrittenRange& range : mine) bytes += range.length;
    outcome.bytes = world.sum(bytes);
    const auto texts = world.gather_to_root(to_text(mine));
    std::optional<Failure> failure;
    if (world.is_root()) {
        std::vector<WrittenRange> ranges;
        for (const std::string& text : texts)
            for (WrittenRange& range : ranges_from_text(text)) ranges.push_back(std::move(range));
        if (options_.one_file_per_node) failure = write_master(commit_.temporary(), job_, ranges);
        if (!failure)
            failure = commit_.finish(std::move(ranges), job_.contents == Contents::everything,
                                     faults_, outcome.warnings);
    }
    return comm::first_failure(world, failure);
}

// Reports "superseded" instead if a newer attempt has removed the files of this save.
comm::AgreedFailure Saving::give_up(const comm::AgreedFailure& failure) const {
    std::optional<Failure> superseded;
    if (groups_.world.is_root()) {
        commit_.abandon();
        superseded = check_newest(job_.claim);
    }
    return comm::first_failure(groups_.world, superseded).value_or(failure);
}

}  // namespace

SaveOutcome save(const SaveJob& job, const SaveOptions& options, const SaveGroups& groups,
                 Faults& faults) {
    const Timer timer;
    SaveOutcome outcome{.step = job.progress.step};
    Saving saving(job, options, groups, faults);
    outcome.failure = saving.run(outcome);
    outcome.seconds = timer.seconds();
    if (outcome.failure || !groups.world.is_root() || !job.limit) return outcome;
    if (const auto kept = keep_newest(job.claim, {job.limit, saving.kept_steps()}))
        outcome.warnings.push_back(kept->message);
    return outcome;
}

}  // namespace ringshard::checkpoint
