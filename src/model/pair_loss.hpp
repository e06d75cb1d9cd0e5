#pragma once

#include <array>
#include <vector>

#include "ringshard/model/objective.hpp"
#include "ringshard/model/token_batch.hpp"

namespace ringshard::model {

// A side of a pair: an answer.
struct PairSide {
    double score;       // its log-probability, over all its targets; or its reward
    double reference;   // the same under the reference; of the chosen reward, the margin
    double targets;     // how many they are; 0: the pair has no such side
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
        std::vector<double> further;
        double d_likelihood = 0;  // d loss / d likelihood of the chosen side
    };
    virtual Value of(const PairSide& chosen, const PairSide& rejected,
                     const AllPairs& all) const = 0;
    // The numbers of Value::further, for Objective::further_numbers().
    virtual std::vector<FurtherNumber> further_numbers() const = 0;
};

}  // namespace ringshard::model
