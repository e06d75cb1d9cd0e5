#pragma once

#include "ringshard/model/objective.hpp"

namespace ringshard::model {

// Learning from stored log-probabilities of another model: the divergence between both
// distributions over the stored tokens, plus data_weight x the loss of the data. The divergences
// are those of TRL's GKD and distillation trainers.
struct Distillation {
    double beta = 0;  // 0: forward KL; 1: reverse KL; between: generalised Jensen-Shannon
    double temperature = 1;
    bool has_tail = true;  // all other tokens are one more, with the mass that is left
    double data_weight = 0;
    ops::LossForm data{};  // without smoothing
};

std::shared_ptr<const Objective> distillation_objective(const Distillation& options);

}  // namespace ringshard::model
