#include <algorithm>

#include "optimizer_kinds.hpp"
#include "ringshard/base/error.hpp"

namespace ringshard::optim {

OptimizerKind kind_of(config::Optimizer optimizer, const config::TrainingSettings& settings) {
    const auto* const found =
        std::ranges::find(kinds::all, optimizer, [](const auto& kind) { return kind.first; });
    RINGSHARD_CHECK(found != kinds::all.end(), "an optimizer without a file");
    return found->second(settings);
}

}  // namespace ringshard::optim
