#include "ringshard/config/resolve.hpp"
#include "ringshard/config/optimizer_settings.hpp"

#include <algorithm>
#include <optional>

#include "command_line.hpp"
#include "foreign/read_recipe.hpp"
#include "method_defaults.hpp"
#include "profiles.hpp"
#include "resolver.hpp"
#include "settings_file.hpp"
#include "settle_adapters.hpp"
#include "validate.hpp"
#include "value_text.hpp"

namespace ringshard::config {

namespace {

using IdleKeys = std::vector<std::pair<std::string, std::string>>;

// `result` may hold problems already. `idle`: keys of a recipe without effect, with the reasons.
Resolution resolve(const OptionTable& table, const Statements& said, const IdleKeys& idle,
                   Resolution result) {
    Resolver resolver(table, result);
    resolver.take(said);
    for (const auto& [key, reason] : idle) resolver.add_idle(key, reason);
    if (const Assignment* profile = resolver.strongest("profile");
        profile != nullptr && !is_null(profile->text))
        resolver.take(read_profile(table, profile->statement, result.notes, result.problems));
    if (const Assignment* method = resolver.strongest("method"); method != nullptr) {
        Statements defaults = method_defaults(method->text);
        std::erase_if(defaults, [&](const Statement& statement) {
            return resolver.strongest(statement.name) != nullptr;
        });
        resolver.take(defaults);
    }

    resolver.apply();
    resolver.report_accepted();
    check_together(result.settings, result.broken, result.problems);
    settle_adapters(table, result);
    const DataSettings& data = result.settings.values.data;
    if (!data.datasets.empty() && !data.dataset_name.empty())
        result.notes.push_back("dataset_name: not used, since datasets names the data, as in TRL");
    const TrainingSettings& training = result.settings.values.training;
    for (const std::string& name : settings_without_use(training))
        if (result.settings.given.contains(name))
            result.notes.push_back(format_text("{}: not used by optim = {}", name,
                                               table.find("optim")->write(result.settings.values)));
    if (training.lr_scheduler_type == Schedule::constant && !is_schedule_free(training.optim) &&
        result.settings.is_fixed("warmup_steps") && training.warmup_steps > 0)
        result.notes.push_back(
            "warmup_steps: not used, since lr_scheduler_type = constant has no warm-up, as in "
            "transformers; constant_with_warmup has one");
    const bool compares =
        training.learns_pairs() || training.judges_answers() || training.learns_embeddings();
    if (compares && result.settings.is_fixed("lora_dropout"))
        result.notes.push_back(
            "lora_dropout: not used, since texts and answers are compared without dropout");
    const LoggingSettings& logging = result.settings.values.logging;
    const auto writes = [&](const char* place) {
        return std::ranges::find(logging.report_to, place) != logging.report_to.end();
    };
    if (!logging.logging_dir.empty() && !writes("tensorboard") && !writes("all"))
        result.notes.push_back(
            "logging_dir: not needed, it is the folder of TensorBoard's files, which report_to "
            "tensorboard writes");
    return result;
}

}  // namespace

Resolution resolve(const OptionTable& table, const std::vector<std::string>& command_line,
                   const Environment& environment) {
    Resolution result;
    Statements said = read_command_line(table, command_line, result.problems);
    const Statements variables = read_environment(table, environment, result.problems);
    said.insert(said.end(), variables.begin(), variables.end());

    IdleKeys idle;
    std::optional<Statement> read;
    for (const Statement& statement : Statements(said)) {
        if (!names_settings_file(statement) || is_null(statement.text)) continue;
        if (read) {  // the command line comes first: it overrides the variable
            if (statement.origin.strength == read->origin.strength && statement.text != read->text)
                result.problems.push_back(complaint(
                    statement, format_text("a run reads one file of settings, and {} = {} names "
                                           "another: put both into one",
                                           read->name, read->text)));
            continue;
        }
        read = statement;
        ImportedSettings file = statement.name == "config"
                                    ? read_config_file(table, statement.text, result.problems)
                                    : read_shell_recipe(table, statement.text, result.problems);
        said.insert(said.end(), file.statements.begin(), file.statements.end());
        result.notes.insert(result.notes.end(), file.notes.begin(), file.notes.end());
        idle = std::move(file.idle);
    }
    std::erase_if(said, names_settings_file);
    return resolve(table, said, idle, std::move(result));
}

Resolution resolve(const OptionTable& table, const std::vector<std::string>& command_line,
                   const Environment& environment, const SettingsText& file) {
    Resolution result;
    Statements said = read_command_line(table, command_line, result.problems);
    for (const Statements& weaker :
         {read_environment(table, environment, result.problems),
          read_settings_text(table, file.yaml, Strength::config_file, file.place, result.problems)})
        said.insert(said.end(), weaker.begin(), weaker.end());
    return resolve(table, said, {}, std::move(result));
}

Resolution resolve(const OptionTable& table, const NamedTexts& settings, const std::string& place,
                   const Environment& environment) {
    Resolution result;
    Statements said = read_environment(table, environment, result.problems);
    for (const auto& [name, text] : settings)
        said.push_back({lower_with_underscores(name), text, {Strength::config_file, place}, {}});
    return resolve(table, said, {}, std::move(result));
}

Failure summary(const std::vector<Failure>& problems) {
    std::vector<std::string> lines;
    for (const Failure& problem : problems)
        if (std::find(lines.begin(), lines.end(), problem.message) == lines.end())
            lines.push_back(problem.message);
    return {problems.front().code, join(lines, "\n")};
}

}  // namespace ringshard::config
