#pragma once

#include <string>

#include "ringshard/base/timer.hpp"
#include "ringshard/train/metrics.hpp"

namespace ringshard::train {

// The progress that rank 0 shows on standard error: a line for each logged step, below them on a
// terminal one live bar; in a file there are no carriage returns.
class Progress {
public:
    Progress(bool is_live, int64_t first_step, int64_t num_steps);
    ~Progress();  // leaves the bar as it stands
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    static bool stderr_is_terminal();

    void step(const StepNumbers& numbers);         // redraws the bar
    void logged(const StepWindow::Summary& line);  // a line that stays
    void say(const std::string& text);             // a line that stays

private:
    void erase();
    void draw(int64_t step);
    double seconds_left(int64_t step) const;

    bool is_live_;
    int64_t first_step_;
    int64_t num_steps_;
    Timer since_start_;
    double drawn_at_ = -1;
    std::string numbers_;  // beside the bar
    bool is_drawn_ = false;
};

// "0:13:44"
std::string hours_minutes_seconds(double seconds);

// "412.3k"
std::string with_thousands(double value);

}  // namespace ringshard::train
