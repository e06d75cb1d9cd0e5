#include "commands.hpp"
#include "reference.hpp"
#include "reference_files.hpp"
#include "ringshard/base/exit_code.hpp"
#include "ringshard/base/text.hpp"
#include "version.hpp"

namespace ringshard::cli {

namespace {

// A text that roff leaves as it is: no escapes in it, and no request at its beginning.
std::string plain(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\')
            out += "\\e";
        else if (c == '-')
            out += "\\-";
        else if (c == '\'')
            out += "\\(aq";
        else if (c == '"')
            out += "\\(dq";
        else
            out += c;
    }
    return out.starts_with('.') ? "\\&" + out : out;
}

std::string bold(const std::string& text) { return format_text("\\fB{}\\fR", plain(text)); }
std::string slanted(const std::string& text) { return format_text("\\fI{}\\fR", plain(text)); }

std::string heading(const std::string& title) {
    return format_text(".SH \"{}\"\n", plain(upper_case(title)));
}

// A term, and its meaning below.
std::string item(const std::string& term, const std::string& text) {
    return format_text(".TP\n{}\n{}\n", term, plain(text));
}

std::string synopsis() {
    std::string out = heading("Synopsis");
    out += format_text("srun \\&./{} [{}] {} ...\n", bold("trainer"), slanted("COMMAND"),
                       bold("--setting value"));
    for (const Command& command : commands())
        for (const std::string& usage : command.usage)
            out += format_text(".br\n{} {}\n", bold("trainer"), plain(usage));
    return out;
}

std::string describe_commands() {
    std::string out = heading("Commands");
    for (const Command& command : commands()) {
        out += format_text(".SS \"trainer {}\"\n{}.\n.PP\n{}\n", plain(command.name),
                           plain(command.summary), plain(command.about));
        for (const CommandFlag& flag : command.flags) {
            const std::string value = flag.value.empty() ? "" : " " + slanted(flag.value);
            out += item(bold(flag.name) + value, flag.help);
        }
    }
    return out;
}

std::string describe_settings(const config::OptionTable& table) {
    std::string out = heading("Settings");
    out +=
        "Names, meaning and defaults are those of TRL, transformers and Accelerate.\n"
        "A setting comes from its default, a profile, a file that\n" +
        bold("--config") + "\nnames, the environment\n" +
        format_text("({}and its name)\n", bold("RINGSHARD_")) +
        "or a flag; the last one of these that says it counts.\n";
    for (const ReferenceSection& section : settings_reference(table)) {
        out += format_text(".SS \"{}\"\n", plain(section.title));
        if (!section.about.empty()) out += plain(section.about) + "\n";
        for (const ReferenceEntry& entry : section.entries) {
            std::string term = bold(entry.shown());
            if (!entry.value.empty()) term += " " + slanted(entry.value);
            if (!entry.usual.empty()) term += plain(format_text("  ({})", entry.usual));
            out += item(term, entry.text);
        }
    }
    return out;
}

std::string exit_status() {
    struct Meaning {
        ExitCode code;
        const char* text;
    };
    static constexpr Meaning meanings[]{
        {ExitCode::done, "Done; also where a run was found complete."},
        {ExitCode::usage, "The command line cannot be understood."},
        {ExitCode::bad_data, "A dataset, a model file or a checkpoint is damaged."},
        {ExitCode::missing_input, "A named input does not exist."},
        {ExitCode::internal, "An internal error."},
        {ExitCode::io, "Input or output failed for good: a full disk, one that is read-only."},
        {ExitCode::stopped_early,
         "Stopped by a signal, the time limit or a stop file, with a good checkpoint."},
        {ExitCode::bad_numbers, "Loss or gradient became NaN or infinite."},
        {ExitCode::peer_lost, "A rank was lost, or hung."},
        {ExitCode::settings, "A setting is unknown, wrong or impossible here."},
        {ExitCode::superseded, "A newer attempt owns the run."}};
    std::string out = heading("Exit status");
    for (const Meaning& meaning : meanings)
        out += item(bold(std::to_string(number(meaning.code))), meaning.text);
    return out;
}

std::string examples() {
    return heading("Examples") +
           format_text(
               ".EX\n"
               "srun ./trainer {}\n"
               "trainer plan {}\n"
               "trainer report RUN OTHER_RUN {}\n"
               ".EE\n",
               plain("--profile zero2 --model_name_or_path MODEL --dataset_name DATA --output_dir "
                     "RUN"),
               plain("--world 8 --gpu h100-80 --profile zero3 --cp_size 8 --max_length 1048576"),
               plain("-o report.html"));
}

}  // namespace

std::string manual_page(const config::OptionTable& table) {
    return format_text(
        ".TH TRAINER 1 \"\" \"ringshard {}\" \"Ringshard\"\n"
        ".ad l\n"
        "{}trainer \\- supervised fine\\-tuning on SLURM clusters, at any sequence length\n"
        "{}{}{}{}{}",
        version::program, heading("Name"), synopsis(), describe_commands(),
        describe_settings(table), exit_status(), examples());
}

}  // namespace ringshard::cli
