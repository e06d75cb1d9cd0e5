#include "command_line.hpp"

#include <algorithm>
#include <boost/program_options/cmdline.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "value_text.hpp"

namespace po = boost::program_options;

namespace ringshard::config {

namespace {

Shape shape_of(const OptionTable& table, const std::string& name) {
    if (const Option* option = table.find(name)) return option->shape;
    if (const Alias* alias = table.find_alias(name)) {
        // `--warmup_ratio` takes the values of `--warmup_steps`, unless the alias has its own
        // shape.
        return alias->shape == Shape::word ? table.find(alias->target)->shape : alias->shape;
    }
    return Shape::word;
}

bool is_flag(const std::string& token) { return token.starts_with("--") && token.size() > 2; }

// Turns "--max-steps=3" into "--max_steps=3".
std::string with_underscores(std::string token) {
    if (!is_flag(token)) return token;
    const auto end =
        token.begin() + static_cast<std::ptrdiff_t>(std::min(token.find('='), token.size()));
    std::replace(token.begin() + 2, end, '-', '_');
    return token;
}

// Parses a boolean, alone or before a word that means true or false; Boost has no such form.
std::vector<po::option> read_boolean_flag(const OptionTable& table,
                                          std::vector<std::string>& tokens) {
    const std::string token = tokens.front();
    if (!is_flag(token) || token.find('=') != std::string::npos) return {};
    std::string name = token.substr(2);
    std::string value = "true";
    if (const Block* block = table.find_block(name); block != nullptr && block->may_stand_alone) {
        tokens.erase(tokens.begin());
        if (!tokens.empty() && !is_flag(tokens.front())) {
            value = tokens.front();
            tokens.erase(tokens.begin());
        }
        return {po::option(name, {value})};
    }
    if (shape_of(table, name) != Shape::boolean) {
        const bool is_negation = name.starts_with("no_") &&
                                 shape_of(table, name.substr(3)) == Shape::boolean &&
                                 table.find(name) == nullptr && table.find_alias(name) == nullptr;
        if (!is_negation) return {};
        name = name.substr(3);
        value = "false";
        tokens.erase(tokens.begin());
    } else {
        tokens.erase(tokens.begin());
        if (!tokens.empty() && (read_boolean(tokens.front()) || is_null(tokens.front()))) {
            value = tokens.front();
            tokens.erase(tokens.begin());
        }
    }
    return {po::option(name, {value})};
}

po::options_description describe(const OptionTable& table) {
    po::options_description description;
    for (const std::string& name : table.all_names()) {
        auto* value = po::value<std::vector<std::string>>();
        if (shape_of(table, name) == Shape::list) value->multitoken();
        description.add_options()(name.c_str(), value);
    }
    return description;
}

const Origin from_command_line{Strength::command_line, "command line"};

// `before`: the boolean setting right before the word, if there is one.
Failure unexpected(const std::string& word, const std::string& before) {
    if (!before.empty())
        return {ExitCode::usage, format_text("unexpected word '{}' after --{} on the command line: "
                                             "write --{} true or false, or the name alone for true",
                                             word, before, before)};
    return {ExitCode::usage, format_text("unexpected word '{}' on the command line: settings are "
                                         "written as --name value; `trainer --help` lists them",
                                         word)};
}

// A repeated flag overrides the earlier one, as scripts that end in "$@" expect.
void add_or_replace(Statements& statements, Statement statement, const OptionTable& table) {
    const Alias* alias = table.find_alias(statement.name);
    const bool names_a_profile = (alias != nullptr ? alias->target : statement.name) == "profile";
    for (Statement& earlier : statements) {
        if (earlier.name != statement.name || names_a_profile || names_settings_file(statement))
            continue;
        earlier.text = statement.text;
        return;
    }
    statements.push_back(std::move(statement));
}

}  // namespace

Statements read_command_line(const OptionTable& table, const std::vector<std::string>& arguments,
                             Problems& problems) {
    std::vector<std::string> tokens;
    for (const std::string& argument : arguments) tokens.push_back(with_underscores(argument));

    const po::options_description description = describe(table);
    po::parsed_options parsed(&description);
    try {
        namespace style = po::command_line_style;
        parsed = po::command_line_parser(tokens)
                     .options(description)
                     .style(style::allow_long | style::long_allow_adjacent | style::long_allow_next)
                     .extra_style_parser([&](std::vector<std::string>& rest) {
                         return read_boolean_flag(table, rest);
                     })
                     .allow_unregistered()
                     .run();
    } catch (const po::error& error) {  // turns Boost's exception into a failure
        problems.push_back({ExitCode::usage, format_text("command line: {}", error.what())});
        return {};
    }

    Statements statements;
    bool after_unknown = false;  // the value of an unknown flag arrives as a separate word
    std::string boolean_before;
    for (const po::option& option : parsed.options) {
        if (option.string_key.empty() || option.position_key >= 0) {
            if (after_unknown)
                statements.back().text = option.value.front();
            else
                problems.push_back(unexpected(join(option.value, " "), boolean_before));
            after_unknown = false;
            boolean_before.clear();
            continue;
        }
        std::string value = option.value.empty() ? "true" : option.value.front();
        if (option.value.size() > 1) value = write_value(option.value);
        after_unknown = option.unregistered;
        const bool is_boolean = shape_of(table, option.string_key) == Shape::boolean;
        boolean_before = is_boolean ? option.string_key : "";
        add_or_replace(statements, {option.string_key, value, from_command_line, {}}, table);
    }
    return statements;
}

Statements read_environment(const OptionTable& table, const Environment& environment,
                            Problems& problems) {
    static const std::string prefix = "RINGSHARD_";
    Statements statements;
    for (const auto& [variable, value] : environment.all()) {
        if (!variable.starts_with(prefix)) continue;
        const bool is_reserved = variable == "RINGSHARD_FAULT" || variable == "RINGSHARD_MPI" ||
                                 variable == "RINGSHARD_ROOT" ||
                                 variable == "RINGSHARD_TORCH_DIR" ||
                                 variable.starts_with("RINGSHARD_TEST_");
        if (is_reserved) continue;
        const std::string name = lower_case(variable.substr(prefix.size()));
        const bool is_known = table.find(name) != nullptr || table.find_alias(name) != nullptr ||
                              table.find_block(name) != nullptr ||
                              table.find_refused_family(name) != nullptr;
        if (is_known) {
            statements.push_back({name, value, {Strength::environment, variable}, {}});
            continue;
        }
        const std::string nearest = nearest_name(name, table.all_names());
        problems.push_back(
            {ExitCode::settings,
             format_text(
                 "{} = {} [environment]: there is no setting {}{}{}{}? Unset it or mend its name.",
                 variable, value, name, nearest.empty() ? "" : "; did you mean ",
                 nearest.empty() ? "" : prefix, upper_case(nearest))});
    }
    return statements;
}

}  // namespace ringshard::config
