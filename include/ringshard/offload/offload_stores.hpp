#pragma once

#include <memory>

#include "ringshard/offload/offload_store.hpp"
#include "ringshard/offload/staging.hpp"

namespace ringshard::offload {

// The offload stores of a rank, one for each kind of state that the settings offload, and the
// staging buffers for files. Zero, the optimizer and the model hold pointers to them.
struct OffloadStores {
    Staging staging;
    std::unique_ptr<OffloadStore> weights;
    std::unique_ptr<OffloadStore> optimizer;
    std::unique_ptr<OffloadStore> activations;

    int64_t bytes() const {
        int64_t sum = 0;
        for (const OffloadStore* offload_store :
             {weights.get(), optimizer.get(), activations.get()})
            if (offload_store != nullptr) sum += offload_store->bytes();
        return sum;
    }
};

}  // namespace ringshard::offload
