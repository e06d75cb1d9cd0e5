#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "ringshard/train/numbers.hpp"

namespace ringshard::train {

// Finds steps whose loss or gradient stands out from the steps before. It depends on the numbers of
// steps alone, which all ranks have with the same bits.
class Spikes {
public:
    // Returns why the step is a spike, or an empty text if it is none. A skipped step is a spike.
    // Keeps the numbers of the step, by which it judges later ones.
    std::string judge(const StepNumbers& numbers);

    // The numbers of the steps before, each loss with its norm, to the bit.
    std::string to_text() const;
    // Takes them in place of its own. Returns false, and has none, if the text is of another kind.
    bool load(const std::string& text);

    static constexpr size_t window = 50;      // steps before
    static constexpr size_t fewest = 10;      // without so many of them no step is a spike
    static constexpr double norm_factor = 3;  // a larger norm over the median is a spike
    // A loss is a spike that lies above the median by more than so many median deviations from it,
    // and by more than this share of it.
    static constexpr double loss_deviations = 8;
    static constexpr double loss_share = 0.05;

private:
    std::deque<double> losses_;
    std::deque<double> norms_;
};

}  // namespace ringshard::train
