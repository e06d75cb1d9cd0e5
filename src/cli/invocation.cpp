#include "ringshard/cli/invocation.hpp"

#include <algorithm>

#include "ringshard/base/text.hpp"

namespace ringshard::cli {

const std::vector<CommandSummary>& commands() {
    static const std::vector<CommandSummary> all{
        {"train", "Train a model; what `trainer` does when no command is named. Also called sft."},
        {"prepare",
         "Make the rows that training will see, ahead of the job, on any number of ranks."},
        {"plan",
         "What a step would take, without a GPU and before the job: --world RANKS --gpu h100-80, "
         "--longest, --suggest."},
        {"tokenize", "Lines of JSON with text or messages in, with token ids and masks out."},
        {"inspect", "Show prepared rows as training will see them, or a checkpoint or model."},
        {"export",
         "Make the Hugging Face folder of a checkpoint: export CHECKPOINT --output_dir FOLDER."},
        {"plot",
         "Draw the metrics of runs: plot RUN... --output FILE.svg, or FILE.csv for the table."},
        {"sweep",
         "Many runs as one job array: sweep expand|submit FILE, sweep status|best FOLDER."},
        {"init", "Make a model with random weights: --config_json FILE --output_dir FOLDER."},
        {"config", "Show the resolved settings and where each comes from; --json for machines."},
        {"configure", "Ask a few questions and write a file of settings."},
        {"doctor", "Check the machine, MPI, the GPUs and the network of this job."},
        {"version", "Show versions."},
    };
    return all;
}

Expected<Invocation> read_invocation(const std::vector<std::string>& arguments) {
    Invocation invocation;
    invocation.flags = arguments;
    if (!arguments.empty() && !arguments.front().starts_with("-")) {
        invocation.command = arguments.front();
        invocation.flags.erase(invocation.flags.begin());
        if (invocation.command == "sft") invocation.command = "train";
        const bool names_checkpoint = invocation.command == "export" && !invocation.flags.empty() &&
                                      !invocation.flags.front().starts_with("-");
        if (names_checkpoint) invocation.flags.insert(invocation.flags.begin(), "--checkpoint");
        std::vector<std::string> names{"help"};
        for (const CommandSummary& command : commands()) names.push_back(command.name);
        if (std::ranges::find(names, invocation.command) == names.end()) {
            const std::string nearest = nearest_name(invocation.command, names);
            return Failure{
                ExitCode::usage,
                concat("there is no command '", invocation.command, "'",
                       nearest.empty() ? "" : "; did you mean ", nearest, "? The commands are ",
                       join(names, ", "), ". Settings are written as --name value.")};
        }
    }
    for (auto flag = invocation.flags.begin(); flag != invocation.flags.end(); ++flag) {
        const bool is_help = *flag == "--help" || *flag == "-h" || flag->starts_with("--help=");
        if (!is_help) continue;
        invocation.wants_help = true;
        if (flag->starts_with("--help=")) invocation.help_topic = flag->substr(7);
        if (*flag == "--help" && flag + 1 != invocation.flags.end() &&
            !(flag + 1)->starts_with("-"))
            invocation.help_topic = *(flag + 1);
        break;
    }
    if (arguments.empty()) invocation.wants_help = true;
    if (arguments.size() == 1 && arguments.front() == "--version") invocation.command = "version";
    if (invocation.command == "help") {
        invocation.wants_help = true;
        const bool names_topic =
            !invocation.flags.empty() && !invocation.flags.front().starts_with("-");
        if (names_topic) invocation.help_topic = invocation.flags.front();
    }
    if (invocation.command.empty()) invocation.command = "train";
    return invocation;
}

}  // namespace ringshard::cli
