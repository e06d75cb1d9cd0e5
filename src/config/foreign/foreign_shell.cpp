#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>

#include "../settings_file.hpp"
#include "../value_text.hpp"
#include "foreign_file.hpp"
#include "ringshard/base/parse_json.hpp"
#include "shell_reader.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

using Words = std::vector<ShellWord>;

// A trainer's command: a program with its first argument, a script, or a module of Python.
struct KnownCommand {
    std::string_view program;
    std::string_view argument;
    std::string_view command;
};

constexpr std::string_view export_command = "swift export";

constexpr KnownCommand known_commands[] = {
    {"swift", "export", export_command},
    {"swift", "sft", "swift sft"},
    {"swift", "pt", "swift pt"},
    {"swift", "rlhf", "swift rlhf"},
    {"megatron", "sft", "megatron sft"},
    {"megatron", "pt", "megatron pt"},
    {"llamafactory-cli", "train", "llamafactory-cli train"},
    {"lmf", "train", "llamafactory-cli train"},
    {"axolotl", "train", "axolotl train"},
    {"swift/cli/sft.py", "", "swift sft"},
    {"swift/cli/pt.py", "", "swift pt"},
    {"swift/cli/rlhf.py", "", "swift rlhf"},
    {"swift/cli/_megatron/sft.py", "", "megatron sft"},
    {"swift/cli/_megatron/pt.py", "", "megatron pt"},
    {"src/train.py", "", "llamafactory-cli train"},
    {"llamafactory/launcher.py", "", "llamafactory-cli train"},
    {"swift.cli.sft", "", "swift sft"},
    {"swift.cli.pt", "", "swift pt"},
    {"axolotl.cli.train", "", "axolotl train"},
};

// Programs that start others.
constexpr std::array launchers{"torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec",
                               "srun",     "python",     "python3",   "nohup",  "env",
                               "exec",     "uv",         "time"};

struct FoundCommand {
    std::string command;
    size_t begin = 0;  // words before it start it
    size_t end = 0;
};

FoundCommand find_command(const Words& words) {
    const auto is_launcher = [&](const char* name) { return words.front().text == name; };
    for (size_t i = 0; i < words.size(); ++i) {
        for (const KnownCommand& known : known_commands) {
            const std::string& word = words[i].text;
            const bool is_path = known.program.find('/') != std::string_view::npos;
            const bool is_program = is_path ? word.ends_with(known.program) : word == known.program;
            const bool has_argument = known.argument.empty() ||
                                      (i + 1 < words.size() && words[i + 1].text == known.argument);
            if (is_program && has_argument)
                return {std::string(known.command), i, i + (known.argument.empty() ? 1 : 2)};
        }
        if (!std::ranges::any_of(launchers, is_launcher)) break;
    }
    return {};
}

ordered_json flag_value(const std::vector<std::string>& values) {
    if (values.empty()) return true;
    if (values.size() > 1) return values;
    const std::string& text = values.front();
    if (const auto truth = lower_case(text); truth == "true" || truth == "false")
        return truth == "true";
    if (is_null(text)) return nullptr;
    if (read_number(text) || text.starts_with('{') || text.starts_with('['))
        if (auto parsed = parse_json<ordered_json>(text)) return std::move(parsed.value());
    return text;
}

// Reads a trainer's command with its launcher, the recipe that it names, and its flags.
class CommandReader {
public:
    CommandReader(const Words& words, const FoundCommand& found, const std::string& script,
                  Problems& problems)
        : words_(words), found_(found), script_(script), problems_(problems) {
        file_.name = script;
    }

    ForeignFile read() {
        complain_of_variables();
        size_t at = found_.end;
        if (at < words_.size() && names_recipe(words_[at].text)) read_recipe(words_[at++]);
        while (at < words_.size()) at = read_flag(at);
        file_.content["command"] = found_.command;
        file_.lines["command"] = place(words_[found_.begin]);
        read_launcher();
        return std::move(file_);
    }

private:
    std::string place(const ShellWord& word) const {
        return format_text("{}:{}", script_, word.line);
    }

    void complain(const ShellWord& word, const std::string& text) {
        problems_.push_back({ExitCode::settings, concat(place(word), ": ", text)});
    }

    void complain_of_variables() {
        for (const ShellWord& word : words_)
            if (word.text.find('$') != std::string::npos)
                complain(word, format_text("'{}' holds a variable that the script does not set; "
                                           "set it above the command",
                                           word.text));
    }

    static bool names_recipe(const std::string& word) {
        return word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json");
    }

    void read_recipe(const ShellWord& word) {
        const auto text = read_text_file(word.text);
        if (!text)
            return complain(word, format_text("the recipe {} is not there; paths begin at the "
                                              "folder in which the program runs",
                                              word.text));
        try {
            if (!YAML::Load(*text).IsMap())
                return complain(word, format_text("{} has no keys", word.text));
            file_ = read_foreign_yaml(*text, word.text);
        } catch (const YAML::Exception& failure) {
            complain(word, format_text("{} is no YAML: {}", word.text, failure.what()));
        }
    }

    // Reads --name value ..., --name=value, or name=value as LLaMA-Factory takes it.
    size_t read_flag(size_t at) {
        const ShellWord& word = words_[at];
        std::string flag = word.text;
        const size_t equals = flag.find('=');
        const bool is_flag = flag.starts_with("--");
        if (!is_flag && equals == std::string::npos) {
            complain(word, format_text("unexpected word '{}' in the command", flag));
            return at + 1;
        }
        std::vector<std::string> values;
        if (equals != std::string::npos) {
            values.push_back(flag.substr(equals + 1));
            flag = flag.substr(0, equals);
        }
        if (is_flag) flag = flag.substr(2);
        std::ranges::replace(flag, '-', '_');
        file_.lines[flag] = place(word);
        for (++at; is_flag && at < words_.size() && !words_[at].text.starts_with("--"); ++at)
            values.push_back(words_[at].text);
        file_.content[flag] = flag_value(values);
        return at;
    }

    // The settings file of Accelerate is one of this program, too.
    void read_launcher() {
        std::vector<std::string> launcher;
        for (size_t i = 0; i < found_.begin; ++i) {
            const std::string& text = words_[i].text;
            const bool is_next = text == "--config_file" && i + 1 < found_.begin;
            if (!is_next && !text.starts_with("--config_file=")) {
                launcher.push_back(text);
                continue;
            }
            file_.content["accelerate_config"] =
                is_next ? words_[i + 1].text : text.substr(text.find('=') + 1);
            file_.lines["accelerate_config"] = place(words_[i]);
            i += is_next ? 1 : 0;
        }
        if (launcher.empty()) return;
        file_.content["launcher"] = join(launcher, " ");
        file_.lines["launcher"] = place(words_.front());
    }

    const Words& words_;
    const FoundCommand& found_;
    const std::string& script_;
    Problems& problems_;
    ForeignFile file_;
};

// A training on rows that `swift export --to_cached_dataset true` has prepared is one on the rows
// that it reads, with the settings of both commands.
void take_exported_rows(const ForeignFile& exported, ForeignFile& file) {
    const auto text = [](const ForeignFile& of, const char* key) {
        const auto found = of.content.find(key);
        return found != of.content.end() && found->is_string() ? found->get<std::string>() : "";
    };
    const std::string folder = text(exported, "output_dir");
    const std::string tested = text(file, "cached_val_dataset");
    if (folder.empty() || text(file, "cached_dataset") != folder + "/train" ||
        (!tested.empty() && tested != folder + "/val"))
        return;
    for (const auto& [key, value] : exported.content.items()) {
        if (file.content.contains(key) || key == "output_dir") continue;
        file.content[key] = value;
        file.lines[key] = exported.lines.at(key);
    }
}

}  // namespace

ForeignFile read_foreign_shell(const std::string& script, const std::string& name,
                               Problems& problems) {
    std::vector<ForeignFile> exports;
    for (const Words& words : read_shell(script)) {
        const FoundCommand found = find_command(words);
        if (found.end == 0) continue;
        Problems of_command;
        ForeignFile file = CommandReader(words, found, name, of_command).read();
        if (found.command == export_command) {
            if (file.content.value("to_cached_dataset", ordered_json(false)) == true)
                exports.push_back(std::move(file));
            continue;
        }
        problems.insert(problems.end(), of_command.begin(), of_command.end());
        for (const ForeignFile& exported : exports) take_exported_rows(exported, file);
        return file;
    }
    problems.push_back(
        {ExitCode::settings,
         format_text("{}: has no command `swift sft`, `swift pt`, `swift rlhf`, "
                     "`megatron sft`, `megatron pt`, `llamafactory-cli train` or `axolotl train`; "
                     "`megatron rlhf` is not served: its preferences are `swift rlhf`'s",
                     name)});
    return {.name = name};
}

}  // namespace ringshard::config
