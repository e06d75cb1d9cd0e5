#pragma once

#include <string>
#include <vector>

#include "diagnosis.hpp"

namespace ringshard::watch {

// What is known of all ranks, this one too, by the beats that came. Times are seconds of one clock.
class Roll {
public:
    // `hosts`: by rank. `silence`: how long a rank may be silent where others wait, or
    // Limits::none.
    Roll(const std::vector<std::string>& hosts, double silence);

    void take(Beat beat, double now);  // of no rank that there is: nothing happens
    void forgive(double now);          // all are as if just heard of, and just made progress
    // Whether ranks wait for a silent one, or a rank is late and no rank makes progress; views()
    // tell it afterwards.
    bool has_trouble(double now);
    const std::vector<RankView>& views() const { return views_; }  // by rank

private:
    void find_silent(double now);
    double seconds_without_progress(double now) const;  // of every rank

    double silence_;
    std::vector<RankView> views_;
    std::vector<double> heard_at_;
};

}  // namespace ringshard::watch
