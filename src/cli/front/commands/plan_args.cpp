#include "plan_args.hpp"

#include "own_flags.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::cli {

Expected<run::PlanArgs> parse_plan_args(const std::vector<std::string>& flags) {
    run::PlanArgs args;
    const auto usage = [](const std::string& what) {
        return Failure{
            ExitCode::usage,
            format_text("{}; trainer plan --world RANKS [--nodes N] [--gpu DEVICE] [--interconnect "
                        "LINK+NETWORK] [--documents N] [--longest] [--suggest] [--curves FOLDER] "
                        "[--show_device] [--parts] [--json] and the flags of training",
                        what)};
    };
    for (OwnFlags flag(flags); flag.next();) {
        if (flag.name == "--json") {
            args.as_json = true;
        } else if (flag.name == "--longest") {
            args.finds_longest = true;
        } else if (flag.name == "--parts") {
            args.shows_parts = true;
        } else if (flag.name == "--show_device") {
            args.shows_device = true;
        } else if (flag.name == "--suggest") {
            args.suggests = true;
        } else if (flag.name == "--gpu" || flag.name == "--curves" ||
                   flag.name == "--interconnect") {
            const auto text = flag.value();
            if (!text) return usage(flag.name + " has no value");
            if (flag.name == "--gpu") args.device = *text;
            if (flag.name == "--curves") args.curves = *text;
            if (flag.name == "--interconnect") args.interconnect = *text;
        } else if (flag.name == "--world" || flag.name == "--nodes" || flag.name == "--documents") {
            const auto text = flag.value();
            const auto number = text ? read_whole_number(*text) : std::nullopt;
            if (!number || *number < 1) return usage(flag.name + " must be at least 1");
            if (flag.name == "--world") args.world = *number;
            if (flag.name == "--nodes") args.nodes = *number;
            if (flag.name == "--documents") args.documents = *number;
        } else {
            args.settings.push_back(flag.whole());
        }
    }
    if (args.finds_longest + args.suggests + !args.curves.empty() > 1)
        return usage("--longest, --suggest and --curves are questions of their own: ask one");
    if (args.shows_parts && (args.suggests || !args.curves.empty()))
        return usage("--parts is of one step: leave --suggest and --curves out");
    if (args.nodes && args.world % *args.nodes != 0)
        return Failure{ExitCode::settings,
                       format_text("nodes = {}: {} ranks do not divide over so many nodes",
                                   *args.nodes, args.world)};
    return args;
}

}  // namespace ringshard::cli
