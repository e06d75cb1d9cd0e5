#pragma once

#include <memory>

#include "ringshard/offload/depot.hpp"
#include "ringshard/offload/staging.hpp"

namespace ringshard::offload {

// Where a rank keeps what shall not stay in the memory that computes: a depot for what the settings
// name, and the memory for what is on its way to files. Those who keep something there hold
// pointers to it.
struct Scratch {
    Staging staging;
    std::unique_ptr<Depot> weights;
    std::unique_ptr<Depot> optimizer;
    std::unique_ptr<Depot> activations;

    int64_t bytes() const {
        int64_t sum = 0;
        for (const Depot* depot : {weights.get(), optimizer.get(), activations.get()})
            if (depot != nullptr) sum += depot->bytes();
        return sum;
    }
};

}  // namespace ringshard::offload
