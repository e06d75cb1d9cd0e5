#include "ringshard/mesh/mesh_shape.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <ranges>
#include <vector>

#include "ringshard/base/text.hpp"
#include "ringshard/config/settings.hpp"

namespace ringshard::mesh {

using config::DistributedType;
using config::FsdpStrategy;
using config::ParallelSettings;
using config::Settings;

std::string to_text(const MeshShape& shape) {
    std::vector<std::string> sizes;
    for (const Axis& axis : axes) sizes.push_back(concat(shape.*axis.size));
    return join(sizes, "x");
}

std::vector<int64_t> section_sizes(const MeshShape& shape, int64_t whole) {
    const int64_t both = std::gcd(shape.zero(), whole);
    std::vector<int64_t> sizes;
    for (int64_t size = 1; size <= both; ++size)
        if (both % size == 0) sizes.push_back(size);
    return sizes;
}

Coordinates coordinates_of(int64_t rank, const MeshShape& shape) {
    RINGSHARD_CHECK(rank >= 0 && rank < shape.world(), "rank {} of {}", rank, to_text(shape));
    Coordinates at;
    for (const Axis& axis : std::views::reverse(axes)) {
        at.*axis.place = rank % (shape.*axis.size);
        rank /= shape.*axis.size;
    }
    return at;
}

int64_t rank_of(const Coordinates& at, const MeshShape& shape) {
    int64_t rank = 0;
    for (const Axis& axis : axes) rank = rank * (shape.*axis.size) + (at.*axis.place);
    return rank;
}

namespace {

bool stays_inside_hosts(const ParallelSettings& parallel) {
    return parallel.distributed_type == DistributedType::fsdp &&
           (parallel.fsdp_sharding_strategy == FsdpStrategy::hybrid_shard ||
            parallel.fsdp_sharding_strategy == FsdpStrategy::hybrid_shard_zero2);
}

}  // namespace

Cuts cuts_of(const ParallelSettings& parallel) {
    if (parallel.distributed_type == DistributedType::deepspeed) {
        const int64_t stage = parallel.zero_stage;
        return {stage >= 1, stage >= 2, stage >= 3, stage < 3};
    }
    if (parallel.distributed_type != DistributedType::fsdp) return {};
    const FsdpStrategy strategy = parallel.fsdp_sharding_strategy;
    if (strategy == FsdpStrategy::no_shard) return {};
    const bool strategy_reshards =
        strategy == FsdpStrategy::full_shard || strategy == FsdpStrategy::hybrid_shard;
    const bool reshards = parallel.fsdp_reshard_after_forward.value_or(strategy_reshards);
    return {true, true, true, !reshards};
}

std::string to_text(const Cuts& cuts) {
    if (!cuts.any()) return "nothing is sharded";
    if (!cuts.gradients) return "optimizer state is sharded";
    if (!cuts.weights) return "optimizer state and gradients are sharded";
    return format_text("optimizer state, gradients and weights are cut; gathered weights {}",
                       cuts.keeps_weights_after_forward ? "stay until the backward pass"
                                                        : "are given up after the forward pass");
}

namespace {

// Axis sizes that the settings fix; 0: to be chosen.
struct RequestedSizes {
    MeshShape shape{0, 0, 1, 1};
    bool cuts = false;
};

RequestedSizes requested_sizes(const Settings& settings, int64_t world, int64_t num_hosts) {
    const ParallelSettings& parallel = settings.values.parallel;
    RequestedSizes requested;
    requested.cuts = cuts_of(parallel).any();
    requested.shape.ring = parallel.cp_size.value_or(1);
    requested.shape.ulysses = parallel.sp_size.value_or(1);
    requested.shape.replicate =
        parallel.dp_replicate_size.value_or(stays_inside_hosts(parallel) ? num_hosts : 0);
    const bool is_profile_as_written = parallel.num_processes == world &&
                                       !settings.is_fixed("cp_size") &&
                                       !settings.is_fixed("sp_size");
    const bool shard_holds = settings.is_fixed("dp_shard_size") || is_profile_as_written;
    requested.shape.shard = shard_holds ? parallel.dp_shard_size.value_or(0) : 0;
    return requested;
}

// The rest of the world goes to the axis that the profile shards over, if its size is not set.
std::optional<MeshShape> complete_shape(const RequestedSizes& requested, int64_t world) {
    MeshShape shape = requested.shape;
    int64_t rest = world;
    for (const Axis& axis : axes) {
        const int64_t size = std::max<int64_t>(1, shape.*axis.size);
        if (rest % size != 0) return std::nullopt;
        rest /= size;
    }
    if (shape.replicate == 0 && shape.shard == 0) {
        shape.replicate = requested.cuts ? 1 : rest;
        shape.shard = requested.cuts ? rest : 1;
    } else if (shape.shard == 0) {
        shape.shard = rest;
    } else if (shape.replicate == 0) {
        shape.replicate = rest;
    }
    return shape.world() == world ? std::optional(shape) : std::nullopt;
}

std::string said(const Settings& settings, const std::string& name, int64_t size) {
    return size == 0 ? format_text("{} open", name)
                     : format_text("{} = {} [{}]", name, size, settings.origin_of(name).place);
}

// How many of the requested sizes another shape changes.
int changes_of(const RequestedSizes& requested, const MeshShape& shape) {
    int changes = 0;
    for (const Axis& axis : axes) {
        const int64_t wanted = requested.shape.*axis.size;
        if (wanted != 0 && wanted != shape.*axis.size) ++changes;
    }
    return changes;
}

// Every mesh shape that changes as few of the requested sizes as possible.
std::vector<std::string> shapes_that_work(const RequestedSizes& requested, int64_t world) {
    struct Candidate {
        int changes;
        MeshShape shape;
    };
    std::vector<Candidate> candidates;
    for (int64_t ring = 1; ring <= world; ++ring)
        for (int64_t ulysses = 1; ring * ulysses <= world; ++ulysses)
            for (int64_t replicate = 1; replicate * ring * ulysses <= world; ++replicate) {
                if (world % (replicate * ring * ulysses) != 0) continue;
                const MeshShape shape{replicate, world / (replicate * ring * ulysses), ring,
                                      ulysses};
                candidates.push_back({changes_of(requested, shape), shape});
            }
    std::ranges::stable_sort(candidates, {}, &Candidate::changes);
    std::vector<std::string> shapes;
    for (const Candidate& candidate : candidates)
        if (shapes.size() < 12 && candidate.changes == candidates.front().changes)
            shapes.push_back(to_text(candidate.shape));
    return shapes;
}

// The rows of a step, where the settings say how many there have to be.
std::optional<Failure> check_batch(const Settings& settings, const MeshShape& shape) {
    const config::TrainingSettings& training = settings.values.training;
    const int64_t rows =
        training.per_device_train_batch_size * training.gradient_accumulation_steps * shape.data();
    if (training.train_batch_size.value_or(rows) == rows) return std::nullopt;
    return Failure{
        ExitCode::settings,
        format_text("train_batch_size = {} [{}]: a step has {} rows = per_device_train_batch_size "
                    "{} x gradient_accumulation_steps {} x {} data ranks; leave it out (in a "
                    "DeepSpeed file: \"auto\"), or change one of them",
                    *training.train_batch_size, settings.origin_of("train_batch_size").place, rows,
                    training.per_device_train_batch_size, training.gradient_accumulation_steps,
                    shape.data())};
}

// The ranks that hold sections hold one copy of the model together.
std::optional<Failure> check_sections(const Settings& settings, const MeshShape& shape) {
    if (shape.zero() % shape.sections == 0) return std::nullopt;
    std::vector<std::string> sizes;
    for (const int64_t size : section_sizes(shape, shape.zero())) sizes.push_back(concat(size));
    return Failure{
        ExitCode::settings,
        format_text(
            "ep_size = {} [{}]: the ranks that share experts divide dp_shard_size x cp_size x "
            "sp_size = {}; sizes that work: {}{}",
            shape.sections, settings.origin_of("ep_size").place, shape.zero(), join(sizes, ", "),
            shape.zero() == 1 && shape.world() > 1
                ? "; with --profile zero1, zero2, zero3 or fsdp2 they may be any part of the ranks"
                : "")};
}

}  // namespace

Expected<MeshShape> choose_shape(const Settings& settings, int64_t world, int64_t num_hosts) {
    if (settings.values.parallel.distributed_type == DistributedType::no && world > 1)
        return Failure{
            ExitCode::settings,
            format_text("distributed_type = no [{}]: it is for one rank, and there are {}; start "
                        "one rank, or choose --profile multi_gpu, zero2, zero3 or fsdp2",
                        settings.origin_of("distributed_type").place, world)};
    const RequestedSizes requested = requested_sizes(settings, world, num_hosts);
    if (auto shape = complete_shape(requested, world)) {
        shape->sections = settings.values.parallel.ep_size;
        if (const auto failure = check_batch(settings, *shape)) return *failure;
        if (const auto failure = check_sections(settings, *shape)) return *failure;
        return *shape;
    }
    std::vector<std::string> names;
    std::vector<std::string> sizes;
    for (const Axis& axis : axes) {
        names.emplace_back(axis.setting);
        sizes.push_back(said(settings, axis.setting, requested.shape.*axis.size));
    }
    return Failure{ExitCode::settings,
                   format_text("a world of {} ranks is not {} with {}; sizes that work: {}", world,
                               join(names, " x "), join(sizes, ", "),
                               join(shapes_that_work(requested, world), ", "))};
}

}  // namespace ringshard::mesh
