#pragma once

#include "component.hpp"
#include "ringshard/model/delayed_scaling.hpp"

namespace ringshard::train {

// Checkpoints with all of a run's state have the maxima of its products in FP8.
class Fp8Maxima : public Component {
public:
    // The arguments must outlive it.
    Fp8Maxima(const model::DelayedScaling& scaling, const comm::Group& world)
        : scaling_(scaling), world_(world) {}

    void save(checkpoint::Contents contents, checkpoint::Extras& extras) const override;

private:
    const model::DelayedScaling& scaling_;
    const comm::Group& world_;
};

}  // namespace ringshard::train
