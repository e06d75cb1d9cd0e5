#include "progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "ringshard/base/text.hpp"

namespace ringshard::train {

std::string with_thousands(double value) {
    std::ostringstream out;
    out << std::fixed << std::setprecision(1);
    if (value >= 1e6)
        out << value / 1e6 << 'M';
    else if (value >= 1e3)
        out << value / 1e3 << 'k';
    else
        out << value;
    return out.str();
}

std::string hours_minutes_seconds(double seconds) {
    const auto whole = static_cast<int64_t>(std::llround(seconds));
    std::ostringstream out;
    out << whole / 3600 << ':' << std::setfill('0') << std::setw(2) << whole / 60 % 60 << ':'
        << std::setw(2) << whole % 60;
    return out.str();
}

namespace {

std::string fixed(double value, int digits) {
    std::ostringstream out;
    out << std::fixed << std::setprecision(digits) << value;
    return out.str();
}

double tokens_per_second(const StepNumbers& numbers) {
    return static_cast<double>(numbers.step_tokens) / numbers.seconds;
}

size_t terminal_width() {
    struct winsize size {};
    const bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return is_known ? size.ws_col : 80;
}

}  // namespace

bool Progress::stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

Progress::Progress(bool is_live, int64_t first_step, int64_t num_steps)
    : is_live_(is_live), first_step_(first_step), num_steps_(num_steps) {}

Progress::~Progress() {
    if (is_drawn_) std::cerr << '\n';
}

double Progress::seconds_left(int64_t step) const {
    const auto done = static_cast<double>(step - first_step_);
    return done > 0 ? since_start_.seconds() / done * static_cast<double>(num_steps_ - step) : 0;
}

void Progress::step(const StepNumbers& numbers) {
    if (!is_live_) return;
    constexpr double seconds_between_drawings = 0.1;
    const bool is_last = numbers.step == num_steps_;
    if (!is_last && since_start_.seconds() < drawn_at_ + seconds_between_drawings) return;
    drawn_at_ = since_start_.seconds();
    numbers_ = format_text("loss {}  {} tok/s", fixed(numbers.loss, 4),
                           with_thousands(tokens_per_second(numbers)));
    draw(numbers.step);
}

void Progress::draw(int64_t step) {
    const double share = static_cast<double>(step) / static_cast<double>(num_steps_);
    const std::string left = concat(std::setw(3), std::floor(100 * share), "% ");
    const std::string right = format_text(" {}/{}  {}  eta {}", step, num_steps_, numbers_,
                                          hours_minutes_seconds(seconds_left(step)));
    constexpr size_t longest_bar = 40;
    const size_t used = left.size() + right.size() + 3;
    const size_t width = terminal_width();
    const size_t bar = width > used ? std::min(longest_bar, width - used) : 0;
    const auto full = static_cast<size_t>(share * static_cast<double>(bar));
    erase();
    std::cerr << left;
    if (bar > 0) std::cerr << '|' << std::string(full, '#') << std::string(bar - full, '.') << '|';
    std::cerr << right << std::flush;
    is_drawn_ = true;
}

void Progress::erase() {
    if (is_drawn_) std::cerr << "\r\033[K";
    is_drawn_ = false;
}

void Progress::logged(const StepWindow::Summary& line) {
    const StepNumbers& numbers = line.numbers;
    erase();
    std::cerr << format_text("step {}/{} {}% loss {} gnorm {} lr {} tok/s {} eta {}", numbers.step,
                             num_steps_,
                             fixed(100.0 * static_cast<double>(numbers.step) /
                                       static_cast<double>(num_steps_),
                                   1),
                             fixed(numbers.loss, 4), fixed(numbers.grad_norm, 3),
                             numbers.learning_rate, with_thousands(tokens_per_second(numbers)),
                             hours_minutes_seconds(seconds_left(numbers.step)))
              << std::endl;
}

void Progress::say(const std::string& text) {
    erase();
    std::cerr << text << std::endl;
}

}  // namespace ringshard::train
