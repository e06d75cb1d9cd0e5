#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::config {
class Settings;
struct ParallelSettings;
}  // namespace ringshard::config

namespace ringshard::mesh {

// world = replicate x shard x ring x ulysses, row-major: ulysses is the fastest axis, so that its
// ranks are neighbours on one host.
struct MeshShape {
    int64_t replicate = 1;
    int64_t shard = 1;
    int64_t ring = 1;
    int64_t ulysses = 1;
    // Ranks that hold the sections of a unit (ep_size): no axis of the world, but consecutive ranks
    // of each zero group.
    int64_t sections = 1;

    int64_t world() const { return replicate * shard * ring * ulysses; }
    int64_t data() const { return replicate * shard; }   // different batches
    int64_t sequence() const { return ring * ulysses; }  // one batch, different tokens
    int64_t zero() const {
        return shard * ring * ulysses;
    }  // one copy of weights and optimizer state
    bool operator==(const MeshShape&) const = default;
};

std::string to_text(const MeshShape& shape);  // "1x4x1x2"
// Returns every number of sections that divides the zero group, and `whole`, ascending.
std::vector<int64_t> section_sizes(const MeshShape& shape, int64_t whole);

struct Coordinates {
    int64_t replicate = 0;
    int64_t shard = 0;
    int64_t ring = 0;
    int64_t ulysses = 0;
    bool operator==(const Coordinates&) const = default;
};

// The axes of the world, the slowest first, with the settings that fix their sizes.
struct Axis {
    const char* setting;
    int64_t MeshShape::*size;
    int64_t Coordinates::*place;
};
inline constexpr Axis axes[] = {
    {"dp_replicate_size", &MeshShape::replicate, &Coordinates::replicate},
    {"dp_shard_size", &MeshShape::shard, &Coordinates::shard},
    {"cp_size", &MeshShape::ring, &Coordinates::ring},
    {"sp_size", &MeshShape::ulysses, &Coordinates::ulysses},
};

Coordinates coordinates_of(int64_t rank, const MeshShape& shape);
int64_t rank_of(const Coordinates& at, const MeshShape& shape);

// The state that a profile shards over the zero group: the four answers of docs/contract.md,
// section 3.
struct Cuts {
    bool optimizer = false;
    bool gradients = false;
    bool weights = false;  // at rest
    bool keeps_weights_after_forward =
        true;  // gathered weights stay until the backward pass is done
    bool any() const { return optimizer || gradients || weights; }
    bool operator==(const Cuts&) const = default;
};

Cuts cuts_of(const config::ParallelSettings& parallel);
std::string to_text(const Cuts& cuts);  // "optimizer state and gradients are sharded"

// Chooses the axes of a world of this size by the settings (docs/contract.md, section 3).
Expected<MeshShape> choose_shape(const config::Settings& settings, int64_t world,
                                 int64_t num_hosts);

}  // namespace ringshard::mesh
