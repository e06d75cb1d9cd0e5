#pragma once

#include <memory>

#include "ringshard/offload/depot.hpp"
#include "saved.hpp"

namespace ringshard::model {

// What blocks keep from their forward to their backward pass, in memory or in a depot. A pass puts
// blocks from the first to the last, and takes them from the last to the first.
class ActivationStore {
public:
    virtual ~ActivationStore() = default;
    virtual void put(size_t block, Saved saved) = 0;
    virtual void expect(size_t block) = 0;  // it will be taken next
    virtual Saved take(size_t block) = 0;

protected:
    ActivationStore() = default;
    ActivationStore(const ActivationStore&) = delete;
    ActivationStore& operator=(const ActivationStore&) = delete;
};

std::unique_ptr<ActivationStore> keep_activations_in_memory(size_t num_blocks);

// They are written while the next block computes, and read while the one after it goes backward: so
// two blocks are in memory at a time. The depot is this store's alone, and grows with the longest
// batch; one that has no room ends the job when it is asked for, at the first block of a batch.
std::unique_ptr<ActivationStore> keep_activations_in_depot(size_t num_blocks,
                                                           offload::Depot& depot);

}  // namespace ringshard::model
