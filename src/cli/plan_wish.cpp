#include "ringshard/cli/plan_wish.hpp"

#include "own_flags.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::cli {

Expected<PlanWish> read_plan_wish(const std::vector<std::string>& flags) {
    PlanWish wish;
    const auto usage = [](const std::string& what) {
        return Failure{
            ExitCode::usage,
            concat(what,
                   "; trainer plan --world RANKS [--nodes N] [--gpu DEVICE] [--interconnect "
                   "LINK+NETWORK] [--longest] "
                   "[--suggest] [--curves FOLDER] [--show_device] [--json] and the flags of "
                   "training")};
    };
    for (OwnFlags flag(flags); flag.next();) {
        if (flag.name == "--json") {
            wish.as_json = true;
        } else if (flag.name == "--longest") {
            wish.finds_longest = true;
        } else if (flag.name == "--show_device") {
            wish.shows_device = true;
        } else if (flag.name == "--suggest") {
            wish.suggests = true;
        } else if (flag.name == "--gpu" || flag.name == "--curves" ||
                   flag.name == "--interconnect") {
            const auto text = flag.value();
            if (!text) return usage(flag.name + " has no value");
            if (flag.name == "--gpu") wish.device = *text;
            if (flag.name == "--curves") wish.curves = *text;
            if (flag.name == "--interconnect") wish.interconnect = *text;
        } else if (flag.name == "--world" || flag.name == "--nodes") {
            const bool is_world = flag.name == "--world";
            const auto text = flag.value();
            const auto number = text ? read_whole_number(*text) : std::nullopt;
            if (!number || *number < 1)
                return usage(is_world ? "--world must be at least 1"
                                      : "--nodes must be at least 1");
            if (is_world)
                wish.world = *number;
            else
                wish.nodes = *number;
        } else {
            wish.settings.push_back(flag.whole());
        }
    }
    if (wish.finds_longest + wish.suggests + !wish.curves.empty() > 1)
        return usage("--longest, --suggest and --curves are questions of their own: ask one");
    if (wish.nodes && wish.world % *wish.nodes != 0)
        return Failure{ExitCode::settings, concat("nodes = ", *wish.nodes, ": ", wish.world,
                                                  " ranks do not divide over so many nodes")};
    return wish;
}

}  // namespace ringshard::cli
