#include "progress.hpp"

#include <unistd.h>

#include <cstdio>
#include <iomanip>
#include <iostream>
#include <sstream>

namespace ringshard::data {

namespace {

constexpr double seconds_before_first = 1;

}  // namespace

Progress::Progress(std::string what, int64_t total, int sharers, bool is_shown)
    : what_(std::move(what)),
      total_(total),
      sharers_(sharers),
      is_shown_(is_shown),
      is_terminal_(isatty(STDERR_FILENO) == 1),
      next_show_(seconds_before_first) {}

Progress::~Progress() {
    if (is_terminal_ && has_shown_) std::cerr << '\n';
}

void Progress::add(int64_t done, int64_t rows) {
    done_ += done;
    rows_ += rows;
    if (!is_shown_) return;
    const double now = timer_.seconds();
    double due = next_show_;
    if (now < due || !next_show_.compare_exchange_strong(due, now + (is_terminal_ ? 0.5 : 10)))
        return;
    show(now);
}

void Progress::show(double now) {
    const double part = static_cast<double>(done_) / static_cast<double>(total_);
    const double rows = static_cast<double>(rows_) * sharers_;
    std::ostringstream line;
    line << what_ << ": " << std::fixed << std::setprecision(0) << 100 * part << " %, "
         << (sharers_ > 1 ? "about " : "") << rows << " rows, " << rows / now << " rows/s, "
         << (part > 0 ? now / part - now : 0) << " s left";
    has_shown_ = true;
    std::cerr << (is_terminal_ ? "\r" : "") << line.str() << (is_terminal_ ? "   " : "\n")
              << std::flush;
}

}  // namespace ringshard::data
