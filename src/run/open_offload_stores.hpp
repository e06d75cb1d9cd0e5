#pragma once

#include "ringshard/comm/agree.hpp"
#include "ringshard/mesh/mesh_shape.hpp"
#include "ringshard/offload/offload_stores.hpp"
#include "ringshard/run/command_context.hpp"
#include "ringshard/run/placement.hpp"

namespace ringshard::run {

// Opens the stores for offload_optimizer_device, offload_param_device and activation_offloading.
// Collective over the world.
comm::Agreed<offload::OffloadStores> open_offload_stores(const CommandContext& context,
                                                         const Placement& placement,
                                                         const mesh::Cuts& cuts);

// Allocates the space that weights and optimizer have reserved, and so much for activations, which
// reserve more where a batch needs it. Collective over the world.
std::optional<comm::AgreedFailure> allocate(offload::OffloadStores& offload_stores,
                                            int64_t activation_bytes,
                                            const CommandContext& context);

}  // namespace ringshard::run
