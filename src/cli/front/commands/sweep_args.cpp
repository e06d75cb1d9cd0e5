#include "sweep_args.hpp"

#include "own_flags.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::cli {

Failure sweep_usage(const std::string& what) {
    return {ExitCode::usage,
            format_text("{}; trainer sweep expand FILE [--index N] [--json], sweep submit FILE "
                        "[--at_a_time N] [--run] [-- flags of sbatch], sweep status FOLDER "
                        "[--json], sweep best FOLDER --metric eval_loss [--greater_is_better] "
                        "[--json]; files go to runs/, or to --runs FOLDER",
                        what)};
}

Expected<SweepArgs> parse_sweep_args(const std::vector<std::string>& flags) {
    SweepArgs args;
    std::vector<std::string> words;
    for (OwnFlags flag(flags); flag.next();) {
        const auto whole = [&](int64_t least) {
            const auto text = flag.value();
            const auto number = text ? read_whole_number(*text) : std::nullopt;
            return number && *number >= least ? number : std::nullopt;
        };
        if (flag.name == "--") {
            args.for_sbatch = flag.rest();
            break;
        }
        if (flag.name == "--json") {
            args.as_json = true;
        } else if (flag.name == "--run") {
            args.runs_it = true;
        } else if (flag.name == "--greater_is_better") {
            args.is_greater_better = true;
        } else if (flag.name == "--index") {
            if (!(args.index = whole(0))) return sweep_usage("--index must be a whole number");
        } else if (flag.name == "--at_a_time") {
            if (!(args.at_a_time = whole(1))) return sweep_usage("--at_a_time must be at least 1");
        } else if (flag.name == "--runs" || flag.name == "--metric") {
            const auto text = flag.value();
            if (!text) return sweep_usage(flag.name + " has no value");
            if (flag.name == "--runs")
                args.runs = *text;
            else
                args.metric = *text;
        } else if (flag.name.starts_with("-")) {
            return sweep_usage("there is no " + flag.name);
        } else {
            words.push_back(flag.name);
        }
    }
    if (words.size() != 2) return sweep_usage("name what to do, and a file or a folder");
    args.action = words[0];
    args.target = words[1];
    return args;
}

}  // namespace ringshard::cli
