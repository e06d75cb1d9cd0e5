#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ringshard/hub/export_weights.hpp"
#include "ringshard/peft/initial_adapter.hpp"

namespace ringshard::peft {

// Which of the adapters of a run, and its name among several; empty: the only one.
struct NamedVariant {
    size_t number = 0;
    std::string name{};
};

// Returns the trained tensors of an adapter as PEFT stores them. `initial`: of an adapter that
// began as a part of the weights, which is written beside the whole weights; else null. It must
// outlive what is returned.
std::shared_ptr<const hub::AdapterTensors> written_adapter(
    const std::vector<shard::FlatUnit>& units, NamedVariant variant, const InitialAdapter* initial);

}  // namespace ringshard::peft
