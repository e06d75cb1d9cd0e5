#include <algorithm>
#include <cstdio>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "ringshard/base/files.hpp"
#include "ringshard/base/shell_word.hpp"
#include "ringshard/cli/front_commands.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/job/array.hpp"
#include "ringshard/report/run_status.hpp"
#include "ringshard/text/value.hpp"
#include "sweep_args.hpp"
#include "sweep_plan.hpp"

namespace ringshard::cli {

namespace {

namespace fs = std::filesystem;
using text::Value;

Value settings_value(const PlannedRun& run, size_t index) {
    Value::Object members{{"index", Value(static_cast<int64_t>(index))},
                          {"folder", Value(run.folder.string())},
                          {"differs", Value(run.differs)},
                          {"settings", Value(run.settings)}};
    return Value(std::move(members));
}

int expand(const SweepArgs& args, const Environment& environment) {
    const auto plan = plan_sweep(args.target, args.runs, environment);
    if (!plan) return report_failure(plan.failure());
    const auto& runs = plan.value().runs;
    if (args.index && *args.index >= static_cast<int64_t>(runs.size()))
        return report_failure(
            {ExitCode::settings, format_text("index = {}: {} has the runs 0 to {}", *args.index,
                                             args.target.string(), runs.size() - 1)});
    Value::List list;
    for (size_t i = 0; i < runs.size(); ++i) {
        if (args.index && static_cast<size_t>(*args.index) != i) continue;
        if (args.as_json)
            list.push_back(settings_value(runs[i], i));
        else
            std::cout << (args.index ? runs[i].settings
                                     : format_text("{}  {}\n", i, runs[i].differs));
    }
    if (args.as_json) std::cout << to_json(Value(std::move(list))) << '\n';
    return number(ExitCode::done);
}

std::string sbatch_line(const SweepArgs& args, const SweepPlan& plan,
                        const std::vector<int64_t>& open, const Environment& environment) {
    std::vector<std::string> words{"sbatch", "--parsable"};
    words.insert(words.end(), args.for_sbatch.begin(), args.for_sbatch.end());
    words.push_back(format_text("--array={}{}", job::array_text(open),
                                args.at_a_time ? format_text("%{}", *args.at_a_time) : ""));
    const auto root = environment.find("RINGSHARD_ROOT");  // of an installed copy
    words.push_back((root ? *root + "/" : "") + "slurm/sweep.sh");
    words.push_back(plan.folder);
    for (std::string& word : words) word = shell_word(word);
    return join(words, " ");
}

// The id of the job that the line makes.
Expected<std::string> run_line(const std::string& line) {
    std::FILE* const output = popen(line.c_str(), "r");
    if (output == nullptr) return io_failure("sbatch", "cannot be run");
    std::string id;
    for (int c = std::fgetc(output); c != EOF; c = std::fgetc(output)) id += static_cast<char>(c);
    const int status = pclose(output);
    // "17", or "17;cluster".
    id = split(std::string(trim(id)), ';').front();
    if (status != 0 || !read_whole_number(id))
        return Failure{ExitCode::io, "sbatch refused the job; its message is above"};
    return id;
}

int submit(const SweepArgs& args, const Environment& environment) {
    const auto plan = plan_sweep(args.target, args.runs, environment);
    if (!plan) return report_failure(plan.failure());
    const auto open = write_runs(plan.value());
    if (!open) return report_failure(open.failure());
    if (open.value().empty()) {
        std::cerr << "nothing to submit: every run is complete, runs or waits\n";
        return number(ExitCode::done);
    }
    const std::string line = sbatch_line(args, plan.value(), open.value(), environment);
    std::cout << line << std::endl;
    if (!args.runs_it) {
        std::cerr << "nothing is submitted: give --run, or run the line above\n";
        return number(ExitCode::done);
    }
    const auto id = run_line(line);
    if (!id) return report_failure(id.failure());
    std::cout << "job " << id.value() << std::endl;
    if (const auto failure = record_job(plan.value().folder, id.value()))
        return report_failure(
            {failure->code,
             format_text("{}; write {} into that file, or another submit sends the same runs again",
                         failure->message, id.value())});
    return number(ExitCode::done);
}

template <class T>
Value value_or_null(const std::optional<T>& given) {
    return given ? Value(*given) : Value();
}

Value status_value(size_t index, const std::string& state, const report::RunStatus& status) {
    return Value(Value::Object{{"index", Value(static_cast<int64_t>(index))},
                               {"state", Value(state)},
                               {"exit_code", value_or_null(status.exit_code)},
                               {"step", value_or_null(status.step)},
                               {"num_steps", value_or_null(status.num_steps)},
                               {"loss", value_or_null(status.loss)},
                               {"tokens_per_second", value_or_null(status.tokens_per_second)},
                               {"seconds_left", value_or_null(status.seconds_left)}});
}

template <class T>
std::string cell_of(const std::optional<T>& given, int digits) {
    if (!given) return "-";
    std::ostringstream out;
    out << std::fixed << std::setprecision(digits) << *given;
    return out.str();
}

void print_status(size_t index, const std::string& state, const report::RunStatus& status) {
    const std::string steps = status.num_steps ? format_text("/{}", *status.num_steps) : "";
    const std::string code =
        status.exit_code && *status.exit_code != 0 ? format_text(" ({})", *status.exit_code) : "";
    std::cout << std::right << std::setw(5) << index << "  " << std::left << std::setw(13)
              << state + code << std::right << std::setw(12) << cell_of(status.step, 0) + steps
              << std::setw(10) << cell_of(status.loss, 4) << std::setw(12)
              << cell_of(status.tokens_per_second, 0) << std::setw(10)
              << cell_of(status.seconds_left, 0) << '\n';
}

int print_states(const SweepArgs& args) {
    const auto runs = find_runs(args.target);
    if (!runs) return report_failure(runs.failure());
    const auto in_queue = job::elements_in_queue(submitted_jobs(args.target));
    Value::List list;
    bool has_begun = !submitted_jobs(args.target).empty();
    if (!args.as_json)
        std::cout << "index  state                step      loss    tokens/s    s left\n";
    for (size_t i = 0; i < runs.value().size(); ++i) {
        const auto status = report::read_run_status(runs.value()[i]);
        const bool waits = in_queue && in_queue->contains(static_cast<int64_t>(i)) &&
                           status.state != report::RunState::complete &&
                           status.state != report::RunState::running;
        const std::string state = waits ? "waiting" : report::to_text(status.state);
        has_begun = has_begun || status.state != report::RunState::missing;
        if (args.as_json)
            list.push_back(status_value(i, state, status));
        else
            print_status(i, state, status);
    }
    if (args.as_json) std::cout << to_json(Value(std::move(list))) << '\n';
    if (!has_begun)
        std::cerr << "no run has begun, and no job was submitted from here: `trainer sweep submit "
                     "FILE --run` submits\n";
    return number(ExitCode::done);
}

int print_best(const SweepArgs& args) {
    if (args.metric.empty()) return report_failure(sweep_usage("name the metric with --metric"));
    const auto runs = find_runs(args.target);
    if (!runs) return report_failure(runs.failure());
    std::optional<report::BestValue> best;
    fs::path best_run;
    std::vector<fs::path> folders;
    for (const fs::path& run : runs.value())
        for (fs::path& folder : metrics_folders(run)) folders.push_back(std::move(folder));
    for (const fs::path& run : folders) {
        const auto found = report::best_value(run, args.metric, args.is_greater_better);
        const bool is_better =
            found && (!best || (args.is_greater_better ? found->value > best->value
                                                       : found->value < best->value));
        if (!is_better) continue;
        best = found;
        best_run = run;
    }
    if (!best)
        return report_failure(
            {ExitCode::bad_data, format_text("metric = {}: no run in {} has logged it", args.metric,
                                             args.target.string())});
    if (args.as_json)
        std::cout << to_json(Value(Value::Object{{"run", Value(best_run.string())},
                                                 {"metric", Value(args.metric)},
                                                 {"value", Value(best->value)},
                                                 {"step", Value(best->step)}}))
                  << '\n';
    else
        std::cout << best_run.string() << "  " << args.metric << ' ' << shortest(best->value)
                  << " at step " << best->step << '\n';
    return number(ExitCode::done);
}

}  // namespace

int sweep(const Invocation& invocation, const Environment& environment) {
    const auto args = parse_sweep_args(invocation.flags);
    if (!args) return report_failure(args.failure());
    const std::string& action = args.value().action;
    if (action == "expand") return expand(args.value(), environment);
    if (action == "submit") return submit(args.value(), environment);
    if (action == "status") return print_states(args.value());
    if (action == "best") return print_best(args.value());
    return report_failure(sweep_usage(format_text("there is no sweep {}", action)));
}

}  // namespace ringshard::cli
