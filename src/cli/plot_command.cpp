#include <iostream>

#include "ringshard/base/files.hpp"
#include "ringshard/cli/front_commands.hpp"
#include "ringshard/cli/tell.hpp"
#include "ringshard/report/plot.hpp"

namespace ringshard::cli {

namespace {

namespace fs = std::filesystem;

struct Wish {
    std::vector<fs::path> runs;
    fs::path output;
    report::LossScale scale = report::LossScale::linear;
    report::Subject subject = report::Subject::runs;
};

Failure usage(const std::string& what) {
    return {
        ExitCode::usage,
        concat(what,
               "; trainer plot RUN... --output FILE.svg|FILE.csv|FILE.json [--log], where RUN is "
               "the output_dir of a run or its metrics.jsonl; trainer plot --plan FILE... "
               "for what plan --curves wrote")};
}

Expected<Wish> read_wish(const std::vector<std::string>& flags) {
    Wish wish;
    for (size_t i = 0; i < flags.size(); ++i) {
        const size_t equals = flags[i].find('=');
        const std::string name = flags[i].substr(0, equals);
        if (name == "--log") {
            wish.scale = report::LossScale::logarithmic;
        } else if (name == "--plan") {
            wish.subject = report::Subject::plans;
        } else if (name == "--output" || name == "-o") {
            if (equals == std::string::npos && i + 1 == flags.size())
                return usage(concat(name, " has no value"));
            wish.output = equals == std::string::npos ? flags[++i] : flags[i].substr(equals + 1);
        } else if (name.starts_with("-")) {
            return usage(concat("there is no ", name));
        } else {
            wish.runs.emplace_back(flags[i]);
        }
    }
    if (wish.runs.empty()) return usage("name a run");
    if (wish.output.empty()) return usage("name the file to write with --output");
    const fs::path ending = wish.output.extension();
    if (ending != ".svg" && ending != ".csv" && ending != ".json")
        return usage(
            concat("output = ", wish.output.string(), ": must end in .svg, .csv or .json"));
    return wish;
}

std::string content_of(const Wish& wish, const std::vector<report::MetricsLog>& runs) {
    if (wish.output.extension() == ".csv") return report::to_csv(runs);
    if (wish.output.extension() == ".json") return report::to_json(runs);
    return report::draw_svg(runs, wish.scale, wish.subject);
}

}  // namespace

int plot(const Invocation& invocation) {
    const auto wish = read_wish(invocation.flags);
    if (!wish) return tell(wish.failure());
    std::vector<std::string> warnings;
    const auto runs = report::read_metrics_logs(wish.value().runs, warnings);
    for (const std::string& warning : warnings) std::cerr << "warning: " << warning << '\n';
    if (!runs) return tell(runs.failure());
    const fs::path& output = wish.value().output;
    if (const auto failure = write_file_atomically(output, content_of(wish.value(), runs.value())))
        return tell(*failure);
    std::cout << "wrote " << output.string() << '\n';
    return number(ExitCode::done);
}

}  // namespace ringshard::cli
