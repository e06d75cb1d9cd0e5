#include <iostream>

#include "own_flags.hpp"
#include "place_finder.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/cli/front_commands.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/report/page.hpp"

namespace ringshard::cli {

namespace {

namespace fs = std::filesystem;

struct ReportArgs {
    std::vector<fs::path> runs;
    fs::path output;
    report::LossScale scale = report::LossScale::linear;
    report::Verification verification = report::Verification::sizes;
};

Failure report_usage(const std::string& what) {
    return {ExitCode::usage,
            format_text("{}; trainer report RUN... --output FILE.html [--log] [--verify_checkpoint "
                        "full|sizes], where RUN is the output_dir of a run or its metrics.jsonl",
                        what)};
}

Expected<ReportArgs> parse_report_args(const std::vector<std::string>& flags) {
    ReportArgs args;
    for (OwnFlags flag(flags); flag.next();) {
        if (flag.name == "--log") {
            args.scale = report::LossScale::logarithmic;
        } else if (flag.name == "--output" || flag.name == "-o") {
            const auto file = flag.value();
            if (!file) return report_usage(flag.name + " has no value");
            args.output = *file;
        } else if (flag.name == "--verify_checkpoint") {
            const std::string how = flag.value().value_or("");
            if (how != "full" && how != "sizes")
                return report_usage(
                    format_text("verify_checkpoint = {}: must be full or sizes", how));
            args.verification =
                how == "full" ? report::Verification::every_byte : report::Verification::sizes;
        } else if (flag.name.starts_with("-")) {
            return report_usage("there is no " + flag.name);
        } else {
            args.runs.emplace_back(flag.name);
        }
    }
    if (args.runs.empty()) return report_usage("name a run");
    if (args.output.empty()) return report_usage("name the file to write with --output");
    if (args.output.extension() != ".html")
        return report_usage(format_text("output = {}: must end in .html", args.output.string()));
    return args;
}

// Warns once for each run whose prepared rows are gone.
void name_documents(std::vector<report::RunStory>& runs, std::vector<std::string>& warnings) {
    for (report::RunStory& run : runs) {
        std::optional<Failure> first;
        for (report::LoggedStep& spike : run.spikes)
            if (const auto failure = find_places(spike); failure && !first) first = failure;
        if (first) warnings.push_back(format_text("{}: {}", run.metrics.name, first->message));
    }
}

}  // namespace

int report_runs(const Invocation& invocation) {
    const auto args = parse_report_args(invocation.flags);
    if (!args) return report_failure(args.failure());
    std::vector<std::string> warnings;
    auto runs = report::read_run_stories(args.value().runs, args.value().verification, warnings);
    if (runs) name_documents(runs.value(), warnings);
    for (const std::string& warning : warnings) std::cerr << "warning: " << warning << '\n';
    if (!runs) return report_failure(runs.failure());
    const fs::path& output = args.value().output;
    if (const auto failure =
            write_file_atomically(output, report::draw_page(runs.value(), args.value().scale)))
        return report_failure(*failure);
    std::cout << "wrote " << output.string() << '\n';
    return number(ExitCode::done);
}

}  // namespace ringshard::cli
