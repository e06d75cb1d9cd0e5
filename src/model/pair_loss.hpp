#pragma once

#include <array>
#include <vector>

namespace ringshard::model {

// A side of a pair: an answer.
struct PairSide {
    double score;       // its log-probability, over all its targets; or its reward
    double reference;   // the same under the reference
    double targets;     // how many they are
    double likelihood;  // log-probability of all targets, those of its prompt among them
    double all_targets;
};

// What a pair costs, from the log-probabilities of its sides.
class PairLoss {
public:
    virtual ~PairLoss() = default;

    struct Value {
        double loss;
        double d_chosen;    // d loss / d score of the chosen side
        double d_rejected;  // the same of the rejected one
        // As Objective::further_numbers() names them.
        std::vector<double> further;
        double d_likelihood = 0;  // d loss / d likelihood of the chosen side
    };
    // mean_chosen_targets: as Objective::averages_chosen_targets() says.
    virtual Value of(const PairSide& chosen, const PairSide& rejected,
                     double mean_chosen_targets) const = 0;
};

}  // namespace ringshard::model
