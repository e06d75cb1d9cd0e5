#include <iostream>

#include "own_flags.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/cli/front_commands.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/report/plot.hpp"

namespace ringshard::cli {

namespace {

namespace fs = std::filesystem;

struct PlotArgs {
    std::vector<fs::path> runs;
    fs::path output;
    report::LossScale scale = report::LossScale::linear;
    report::Subject subject = report::Subject::runs;
};

Failure plot_usage(const std::string& what) {
    return {ExitCode::usage,
            format_text("{}; trainer plot RUN... --output FILE.svg|FILE.csv|FILE.json [--log], "
                        "where RUN is the output_dir of a run or its metrics.jsonl; trainer plot "
                        "--plan FILE... for what plan --curves wrote",
                        what)};
}

Expected<PlotArgs> parse_plot_args(const std::vector<std::string>& flags) {
    PlotArgs args;
    for (OwnFlags flag(flags); flag.next();) {
        if (flag.name == "--log") {
            args.scale = report::LossScale::logarithmic;
        } else if (flag.name == "--plan") {
            args.subject = report::Subject::plans;
        } else if (flag.name == "--output" || flag.name == "-o") {
            const auto file = flag.value();
            if (!file) return plot_usage(flag.name + " has no value");
            args.output = *file;
        } else if (flag.name.starts_with("-")) {
            return plot_usage("there is no " + flag.name);
        } else {
            args.runs.emplace_back(flag.whole());
        }
    }
    if (args.runs.empty()) return plot_usage("name a run");
    if (args.output.empty()) return plot_usage("name the file to write with --output");
    const fs::path ending = args.output.extension();
    if (ending != ".svg" && ending != ".csv" && ending != ".json")
        return plot_usage(
            format_text("output = {}: must end in .svg, .csv or .json", args.output.string()));
    return args;
}

std::string content_of(const PlotArgs& args, const std::vector<report::MetricsLog>& runs) {
    if (args.output.extension() == ".csv") return report::to_csv(runs);
    if (args.output.extension() == ".json") return report::to_json(runs);
    return report::draw_svg(runs, args.scale, args.subject);
}

}  // namespace

int plot(const Invocation& invocation) {
    const auto args = parse_plot_args(invocation.flags);
    if (!args) return report_failure(args.failure());
    std::vector<std::string> warnings;
    const auto runs = report::read_metrics_logs(args.value().runs, warnings);
    for (const std::string& warning : warnings) std::cerr << "warning: " << warning << '\n';
    if (!runs) return report_failure(runs.failure());
    const fs::path& output = args.value().output;
    if (const auto failure = write_file_atomically(output, content_of(args.value(), runs.value())))
        return report_failure(*failure);
    std::cout << "wrote " << output.string() << '\n';
    return number(ExitCode::done);
}

}  // namespace ringshard::cli
