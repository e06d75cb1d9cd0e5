#pragma once

#include "component.hpp"
#include "ringshard/base/faults.hpp"
#include "ringshard/optim/optimizer.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::train {

// Several ranks may hold copies of the same numbers: of whole weights where these are not cut, of
// shards where the model is replicated. After every so many steps this fails where one rank's copy
// differs from the others', with its name and the unit.
class ReplicaCheck : public Component {
public:
    // `every`: steps; 0: never. The arguments must outlive it.
    ReplicaCheck(const shard::Zero& zero, const optim::Optimizer& optimizer,
                 const comm::Group& world, Faults& faults, int64_t every, Log& log)
        : zero_(zero),
          optimizer_(optimizer),
          world_(world),
          faults_(faults),
          every_(every),
          log_(log) {}

    std::optional<comm::AgreedFailure> begin(const Texts& texts) override;
    std::optional<comm::AgreedFailure> after_step(int64_t step,
                                                  const StepNumbers& numbers) override;

private:
    const shard::Zero& zero_;
    const optim::Optimizer& optimizer_;
    const comm::Group& world_;
    Faults& faults_;
    int64_t every_;
    Log& log_;
};

}  // namespace ringshard::train
