#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringshard/config/logging_settings.hpp"
#include "ringshard/job/side_program.hpp"
#include "ringshard/train/metrics.hpp"

namespace ringshard::train {

// The commands that on_log, on_save, on_evaluate and on_end name; none but on rank 0. A command
// gets a JSON object on its standard input and runs beside training. One command of an event runs
// at a time, and later ones wait. A command that fails, or runs longer than hook_timeout_s, is a
// warning.
class Hooks {
public:
    using Say = std::function<void(const std::string&)>;

    Hooks() = default;
    Hooks(const config::LoggingSettings& settings, const std::filesystem::path& output_dir,
          Say say);

    // Starts the command of a line's event, or has it wait.
    void take(const MetricsLine& line);
    // Looks after the commands that run; called between steps.
    void look();
    // Starts on_end and waits for all commands, for so many seconds at most.
    void end(int64_t step, int exit_code, double seconds);

private:
    static constexpr size_t num_events = 4;
    struct Event {  // and its command
        const char* name;
        std::string command;  // empty: none
        std::unique_ptr<job::SideProgram> running{};
        std::deque<std::string> waiting{};  // inputs
        int64_t num_dropped = 0;
    };
    void add(Event& event, const std::string& fields);
    void look_at(Event& event);
    bool is_idle() const;

    std::array<Event, num_events> events_{};
    std::string output_dir_;  // as JSON
    double timeout_ = 0;
    Say say_;
};

}  // namespace ringshard::train
