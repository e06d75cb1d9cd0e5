#include "ringshard/device/binding.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ringshard/base/error.hpp"
#include "ringshard/base/text.hpp"
#include "topology.hpp"

namespace ringshard::device {

Bitmap make_bitmap() { return {hwloc_bitmap_alloc(), hwloc_bitmap_free}; }

std::string to_text(const Bitmap& bitmap) {
    std::string text(static_cast<size_t>(hwloc_bitmap_list_snprintf(nullptr, 0, bitmap.get())), 0);
    hwloc_bitmap_list_snprintf(text.data(), text.size() + 1, bitmap.get());
    return text;
}

Topology::Topology() {
    RINGSHARD_CHECK(hwloc_topology_init(&handle_) == 0);
    hwloc_topology_set_flags(handle_, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    RINGSHARD_CHECK(hwloc_topology_load(handle_) == 0);
}

Topology::Topology(const char* synthetic) {
    RINGSHARD_CHECK(hwloc_topology_init(&handle_) == 0);
    RINGSHARD_CHECK(hwloc_topology_set_synthetic(handle_, synthetic) == 0);
    RINGSHARD_CHECK(hwloc_topology_load(handle_) == 0);
}

int64_t Topology::count(hwloc_obj_type_t type) const {
    return std::max(0, hwloc_get_nbobjs_by_type(handle_, type));
}

Bitmap Topology::threads_of_process() const {
    Bitmap threads = make_bitmap();
    hwloc_get_cpubind(handle_, threads.get(), HWLOC_CPUBIND_PROCESS);
    return threads;
}

// Returns the numbers of the objects that contain one of these hardware threads.
Bitmap Topology::numbers_of(hwloc_obj_type_t type, hwloc_const_cpuset_t threads) const {
    Bitmap numbers = make_bitmap();
    for (hwloc_obj_t object = nullptr;
         (object = hwloc_get_next_obj_by_type(handle_, type, object)) != nullptr;)
        if (hwloc_bitmap_intersects(object->cpuset, threads) != 0)
            hwloc_bitmap_set(numbers.get(), object->logical_index);
    return numbers;
}

Binding Topology::binding(const Bitmap& threads) const {
    return {.cores = to_text(numbers_of(HWLOC_OBJ_CORE, threads.get())),
            .allowed_cores =
                to_text(numbers_of(HWLOC_OBJ_CORE, hwloc_topology_get_allowed_cpuset(handle_))),
            .num_numa_nodes = count(HWLOC_OBJ_NUMANODE),
            .numa_nodes = to_text(numbers_of(HWLOC_OBJ_NUMANODE, threads.get()))};
}

namespace {

Bitmap from_text(const std::string& text) {
    Bitmap bitmap = make_bitmap();
    hwloc_bitmap_list_sscanf(bitmap.get(), text.c_str());
    return bitmap;
}

// Gives ranks cores of their own, as many as can have one: a maximum matching by augmenting paths.
class CoresOfTheirOwn {
public:
    explicit CoresOfTheirOwn(const std::vector<Bitmap>& usable) : usable_(usable) {
        for (size_t rank = 0; rank < usable.size(); ++rank) {
            std::vector<bool> seen(rank_of_core_.size());
            num_ranks_ += give_one(rank, seen) ? 1 : 0;
        }
    }
    size_t num_ranks() const { return num_ranks_; }

private:
    static constexpr size_t nobody = SIZE_MAX;

    bool give_one(size_t rank, std::vector<bool>& seen) {
        for (int core = hwloc_bitmap_first(usable_[rank].get()); core >= 0;
             core = hwloc_bitmap_next(usable_[rank].get(), core)) {
            const auto i = static_cast<size_t>(core);
            if (i >= rank_of_core_.size()) rank_of_core_.resize(i + 1, nobody);
            if (i >= seen.size()) seen.resize(i + 1);
            if (seen[i]) continue;
            seen[i] = true;
            if (rank_of_core_[i] != nobody && !give_one(rank_of_core_[i], seen)) continue;
            rank_of_core_[i] = rank;
            return true;
        }
        return false;
    }

    const std::vector<Bitmap>& usable_;
    std::vector<size_t> rank_of_core_;
    size_t num_ranks_ = 0;
};

}  // namespace

std::string describe_shared_cores(const std::vector<Binding>& ranks) {
    std::vector<Bitmap> usable;
    const Bitmap used = make_bitmap();
    const Bitmap idle = make_bitmap();
    for (const Binding& rank : ranks) {
        usable.push_back(from_text(rank.cores));
        hwloc_bitmap_or(used.get(), used.get(), usable.back().get());
        hwloc_bitmap_or(idle.get(), idle.get(), from_text(rank.allowed_cores).get());
    }
    hwloc_bitmap_andnot(idle.get(), idle.get(), used.get());
    const size_t own = CoresOfTheirOwn(usable).num_ranks();
    if (own == ranks.size() || hwloc_bitmap_iszero(idle.get()) != 0) return {};
    return format_text(
        "of {} ranks only {}{}: they are bound to the cores {}, and the cores {} run no rank",
        ranks.size(), own, own == 1 ? " has a core of its own" : " have a core of their own",
        to_text(used), to_text(idle));
}

std::string bind_memory(const Binding& binding) {
    const std::string& nodes = binding.numa_nodes;
    if (binding.num_numa_nodes < 2) return "on the one NUMA node of the host";
    const Topology topology;
    const Bitmap given = make_bitmap();
    hwloc_membind_policy_t policy = HWLOC_MEMBIND_DEFAULT;
    const bool is_known =
        hwloc_get_membind(topology.handle(), given.get(), &policy, HWLOC_MEMBIND_THREAD) == 0;
    if (is_known && policy != HWLOC_MEMBIND_DEFAULT && policy != HWLOC_MEMBIND_FIRSTTOUCH)
        return format_text("as it was chosen before the start; the cores are of NUMA node {}",
                           nodes);
    const auto number = read_whole_number(nodes);
    const hwloc_obj_t node = number ? hwloc_get_obj_by_type(topology.handle(), HWLOC_OBJ_NUMANODE,
                                                            static_cast<unsigned>(*number))
                                    : nullptr;
    if (node == nullptr)
        return format_text("near each thread: its cores are of NUMA nodes {}", nodes);
    // Not strictly: where a node is full, another one helps out.
    if (hwloc_set_membind(topology.handle(), node->nodeset, HWLOC_MEMBIND_BIND,
                          HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET) == 0)
        return format_text("on NUMA node {}, that of its cores, as far as there is any", nodes);
    return format_text("near each thread: it cannot be bound to NUMA node {}: {}", nodes,
                       std::strerror(errno));
}

}  // namespace ringshard::device
