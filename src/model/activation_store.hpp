#pragma once

#include <memory>

#include "ringshard/offload/offload_store.hpp"
#include "saved.hpp"

namespace ringshard::model {

// Keeps the saved tensors of blocks from the forward to the backward pass, in memory or offloaded.
// A pass stores blocks from the first to the last and loads them from the last to the first.
class ActivationStore {
public:
    virtual ~ActivationStore() = default;
    virtual void store(size_t block, Saved saved) = 0;
    virtual void prefetch(size_t block) = 0;  // starts to read the block that load() returns next
    virtual Saved load(size_t block) = 0;

protected:
    ActivationStore() = default;
    ActivationStore(const ActivationStore&) = delete;
    ActivationStore& operator=(const ActivationStore&) = delete;
};

std::unique_ptr<ActivationStore> keep_activations_in_memory(size_t num_blocks);

// Writes the tensors of a block while the next block computes, and reads them while the block after
// it goes backward, so memory holds two blocks. Nothing else uses the offload store, which grows
// with the longest batch; if it cannot grow, the job ends, at the first block of a batch.
std::unique_ptr<ActivationStore> keep_activations_offloaded(size_t num_blocks,
                                                            offload::OffloadStore& offload_store);

}  // namespace ringshard::model
