#pragma once

#include <set>
#include <string>
#include <vector>

#include "component.hpp"

namespace ringshard::train {

// Reports ranks that are slow in nearly all steps, each once: all others wait for such a rank, so
// its host, or the work of its neighbours, is worth a look.
class SlowRanks : public Component {
public:
    // `hosts`: by rank, on rank 0. The arguments must outlive it.
    SlowRanks(const std::vector<std::string>& hosts, const comm::Group& world, Log& log)
        : hosts_(hosts), world_(world), log_(log) {}

    std::optional<comm::AgreedFailure> after_step(int64_t step,
                                                  const StepNumbers& numbers) override;

private:
    struct Record {
        int64_t slow_steps = 0;
        double sum_of_ratios = 0;
    };
    void look(const std::vector<RankTimes>& ranks);
    void report(size_t rank, double times_median);

    const std::vector<std::string>& hosts_;
    const comm::Group& world_;
    Log& log_;
    std::vector<Record> records_;  // by rank, of the present window
    int64_t steps_ = 0;            // of it
    std::set<size_t> told_;
};

}  // namespace ringshard::train
