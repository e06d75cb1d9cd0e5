#pragma once

#include "placement.hpp"
#include "ringshard/cli/engine.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/mesh/mesh_shape.hpp"
#include "ringshard/offload/offload_stores.hpp"

namespace ringshard::cli {

// The files that offload_optimizer_device, offload_param_device and activation_offloading ask for.
// Collective over the world.
comm::Agreed<offload::OffloadStores> open_offload_stores(const CommandContext& context,
                                                         const Placement& placement,
                                                         const mesh::Cuts& cuts);

// When everybody has asked for room in them; activations ask when batches come. Collective over the
// world.
std::optional<comm::AgreedFailure> allocate(offload::OffloadStores& offload_stores,
                                            const CommandContext& context);

}  // namespace ringshard::cli
