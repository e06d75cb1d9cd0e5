#include <algorithm>
#include <array>
#include <iostream>

#include "ringshard/cli/front_commands.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/config/resolve.hpp"
#include "ringshard/data/check_templates.hpp"

namespace ringshard::cli {

namespace {

// A start would refuse these where it reads the data.
int refuse_wrong_templates(const config::Config& config) {
    const std::vector<Failure> failures =
        data::check_templates({.row_template = config.data.row_template,
                               .template_variables = config.data.template_variables,
                               .datasets = config.data.datasets,
                               .chat_template = config.model.chat_template,
                               .chat_template_path = config.model.chat_template_path});
    return failures.empty() ? number(ExitCode::done) : report_failure(config::summary(failures));
}

}  // namespace

int print_config(const Invocation& invocation, const Environment& environment) {
    std::vector<std::string> flags = invocation.flags;
    const bool as_json = std::erase(flags, "--json") > 0;
    const bool is_import = std::ranges::any_of(flags, [](const std::string& flag) {
        return flag == "--from" || flag.starts_with("--from=") || flag.starts_with("--from_shell");
    });
    for (std::string& flag : flags)
        if (flag == "--from" || flag.starts_with("--from=")) flag = "--config" + flag.substr(6);
    const config::OptionTable table;
    const config::Resolution resolution = config::resolve(table, flags, environment);
    if (!resolution.problems.empty()) return report_failure(config::summary(resolution.problems));
    if (const int code = refuse_wrong_templates(resolution.settings.values); code != 0) return code;
    for (const std::string& note : resolution.notes) std::cerr << "note: " << note << '\n';
    std::cout << (as_json     ? config::print_json(resolution.settings, table) + "\n"
                  : is_import ? config::print_given(resolution.settings, table)
                              : config::print_yaml(resolution.settings, table));
    return number(ExitCode::done);
}

bool is_front_command(const Invocation& invocation) {
    static constexpr std::array commands{"config", "configure", "inspect",  "plan",   "plot",
                                         "report", "sweep",     "tokenize", "version"};
    const bool asks_server = invocation.command == "verify" && invocation.names_server();
    return invocation.wants_help || asks_server ||
           std::ranges::find(commands, invocation.command) != commands.end();
}

int run_front_command(const Invocation& invocation, const Environment& environment) {
    if (invocation.wants_help) return print_help(invocation);
    if (invocation.command == "config") return print_config(invocation, environment);
    if (invocation.command == "configure") return configure(invocation);
    if (invocation.command == "inspect") return inspect(invocation);
    if (invocation.command == "plan") return plan(invocation, environment);
    if (invocation.command == "plot") return plot(invocation);
    if (invocation.command == "report") return report_runs(invocation);
    if (invocation.command == "sweep") return sweep(invocation, environment);
    if (invocation.command == "tokenize") return tokenize(invocation, environment);
    if (invocation.command == "verify") return verify_server(invocation);
    return print_version();
}

}  // namespace ringshard::cli
