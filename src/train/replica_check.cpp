#include "replica_check.hpp"

#include <ATen/ops/sum.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "log.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/comm/agree.hpp"

namespace ringshard::train {

namespace {

// A kind of number that ranks hold copies of. `holder`: ranks of the same one hold the same.
struct Copies {
    std::string what;
    int64_t holder;
    std::vector<int64_t> sums;  // of every unit
};

// Sums the bits as integers: every changed bit shows, and the order of additions does not matter.
int64_t sum_of_bits(const at::Tensor& numbers) {
    if (numbers.element_size() == 1) return at::sum(numbers, at::kLong).item<int64_t>();
    const at::ScalarType whole = numbers.element_size() == 4 ? at::kInt : at::kShort;
    return at::sum(numbers.view(whole), at::kLong).item<int64_t>();
}

std::vector<int64_t> sums_of(shard::FlatStore& numbers, const shard::Chunks& chunks) {
    std::vector<int64_t> sums(chunks.num_units());
    for (size_t chunk = 0; chunk < chunks.size(); ++chunk)
        sums[chunks[chunk].unit] += sum_of_bits(numbers.load(chunk, shard::Access::read));
    return sums;
}

// Adds the sums of all units. Those with sections are apart: other ranks hold their copies than
// those of the other units.
void add_copies(std::vector<Copies>& copies, const std::string& what,
                const std::vector<int64_t>& sums, const shard::Zero& zero,
                int64_t (shard::Zero::*holder)(size_t unit) const) {
    for (const bool have_sections : {false, true}) {
        std::optional<Copies> some;
        for (size_t unit = 0; unit < zero.num_units(); ++unit) {
            if ((zero.units()[unit].num_sections() > 1) != have_sections) continue;
            if (!some) some = Copies{what, (zero.*holder)(unit), {}};
            some->sums.resize(zero.num_units());
            some->sums[unit] = sums[unit];
        }
        if (some) copies.push_back(std::move(*some));
    }
}

std::vector<Copies> all_copies(const shard::Zero& zero, const optim::Optimizer& optimizer) {
    constexpr auto of_shard = &shard::Zero::shard_id;
    std::vector<Copies> copies;
    for (const shard::Shelf& shelf : zero.shelves())
        add_copies(copies, "weights", sums_of(shelf.exact(), shelf.chunks), zero, of_shard);
    for (const auto& updater : optimizer.updaters())
        for (const auto& [spec, chunks, numbers] : updater->states())
            add_copies(copies, format_text("numbers of the optimizer's {}", spec.name),
                       sums_of(*numbers, *chunks), zero, of_shard);
    std::vector<int64_t> whole(zero.num_units());
    for (size_t unit = 0; unit < zero.num_units(); ++unit)
        if (const at::Tensor at_rest = zero.weights_at_rest(unit); at_rest.defined())
            whole[unit] = sum_of_bits(at_rest);
    add_copies(copies, "whole weights", whole, zero, &shard::Zero::section_id);
    return copies;
}

int64_t mixed(const Copies& copies) {
    uint64_t mix = 0;
    for (const int64_t sum : copies.sums)
        mix = (mix ^ static_cast<uint64_t>(sum)) * 0x9e3779b97f4a7c15U + 1;
    return static_cast<int64_t>(mix);
}

// Returns the first unit in which the sums of two ranks differ.
std::string unit_that_differs(const shard::Zero& zero, const std::string& a, const std::string& b) {
    const std::vector<std::string> sums_a = split(a, ' ');
    const std::vector<std::string> sums_b = split(b, ' ');
    const auto at = std::ranges::mismatch(sums_a, sums_b).in1 - sums_a.begin();
    return zero.units()[static_cast<size_t>(at)].name();
}

// The ranks that hold copies, by the sums of their copies.
using Camps = std::map<int64_t, std::vector<size_t>>;

// Names the ranks whose sums differ from those of the majority; without a majority, all ranks.
std::string name_the_odd(const Camps& camps, const std::vector<std::string>& hosts) {
    const auto majority =
        std::ranges::max_element(camps, {}, [](const auto& camp) { return camp.second.size(); });
    const bool is_clear = std::ranges::count_if(camps, [&](const auto& camp) {
                              return camp.second.size() == majority->second.size();
                          }) == 1;
    std::set<size_t> odd;
    for (const auto& [sum, ranks] : camps)
        if (!is_clear || sum != majority->first) odd.insert(ranks.begin(), ranks.end());
    std::vector<std::string> names;
    for (const size_t rank : odd) names.push_back(format_text("rank {} on {}", rank, hosts[rank]));
    return join(names, is_clear ? ", " : " or ");
}

// Returns a text that names a rank with other numbers than its replicas, and the unit; empty if
// there is none.
std::string find_odd_replica(const shard::Zero& zero, const optim::Optimizer& optimizer,
                             const comm::Group& world) {
    for (const Copies& copies : all_copies(zero, optimizer)) {
        const std::vector<int64_t> holders = world.gather(copies.holder);
        const std::vector<int64_t> sums = world.gather(mixed(copies));
        std::map<int64_t, Camps> by_holder;
        for (size_t rank = 0; rank < sums.size(); ++rank)
            by_holder[holders[rank]][sums[rank]].push_back(rank);
        const auto split_one = std::ranges::find_if(
            by_holder, [](const auto& entry) { return entry.second.size() > 1; });
        if (split_one == by_holder.end()) continue;
        const Camps& camps = split_one->second;
        std::vector<std::string> of_units;
        for (const int64_t sum : copies.sums) of_units.push_back(concat(sum));
        const std::vector<std::string> details = world.gather(join(of_units, " "));
        const std::vector<std::string> hosts = world.gather(comm::host_name());
        return format_text("{} holds other {} than its replicas, in {}", name_the_odd(camps, hosts),
                           copies.what,
                           unit_that_differs(zero, details[camps.begin()->second.front()],
                                             details[std::next(camps.begin())->second.front()]));
    }
    return {};
}

// Returns true if several ranks hold copies of the same numbers.
bool are_held_twice(const shard::Zero& zero, const comm::Group& world) {
    if (zero.weights_at_rest(0).defined()) return world.size() > 1;
    const std::vector<int64_t> holders = world.gather(zero.shard_id(0));
    return std::set(holders.begin(), holders.end()).size() < holders.size();
}

// Corrupts one weight of this rank, as a memory fault would. For tests.
void corrupt_weights(const shard::Zero& zero, Faults::Corruption how) {
    if (how == Faults::Corruption::none) return;
    constexpr size_t chunk = 1;  // where every number matters for every token, as in a block
    shard::FlatStore& shards = zero.shelves().front().exact();
    const at::Tensor weights = shards.load(chunk, shard::Access::read);
    at::Tensor one = weights.narrow(0, weights.numel() / 2, 1);
    constexpr int32_t large_exponent = 1 << 30;
    if (how == Faults::Corruption::nan)
        one.fill_(std::numeric_limits<double>::quiet_NaN());
    else
        one.view(at::kInt).fill_(one.view(at::kInt).item<int32_t>() ^ large_exponent);
    shards.store(chunk, weights);
}

}  // namespace

std::optional<comm::AgreedFailure> ReplicaCheck::begin(const Texts& /*texts*/) {
    if (every_ > 0 && !are_held_twice(zero_, world_))
        log_.say(
            "note: check_replicas_every has nothing to compare: no two ranks of this layout "
            "hold the same numbers");
    return std::nullopt;
}

std::optional<comm::AgreedFailure> ReplicaCheck::after_step(int64_t step, const StepNumbers&) {
    corrupt_weights(zero_, faults_.corruption_at("weights"));
    if (every_ == 0 || step % every_ != 0) return std::nullopt;
    world_.flight_recorder().set_activity("comparing replicas");
    const std::string odd = find_odd_replica(zero_, optimizer_, world_);
    if (odd.empty()) return std::nullopt;
    return comm::found_by_all(
        {ExitCode::bad_numbers,
         format_text(
             "check_replicas_every: after step {} {}. Nothing computes this on purpose: suspect "
             "the memory or processor of that host. Checkpoints after step {} may have the damage; "
             "go on from an earlier checkpoint with resume_from_checkpoint, without that host",
             step, odd, step - every_)});
}

}  // namespace ringshard::train
