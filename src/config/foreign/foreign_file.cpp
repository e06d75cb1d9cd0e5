#include "foreign_file.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>

#include "../value_text.hpp"
#include "../yaml_value.hpp"
#include "ringshard/base/parse_json.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

std::string ForeignFile::place(const std::string& path) const {
    for (std::string part = path; !part.empty();
         part = part.substr(0, part.rfind('.') == std::string::npos ? 0 : part.rfind('.')))
        if (const auto line = lines.find(part); line != lines.end())
            return format_text("{}:{}, {}", name, line->second, path);
    return format_text("{}, {}", name, path);
}

namespace {

void note_lines(const YAML::Node& mapping, const std::string& before, ForeignFile& file) {
    for (const auto& entry : mapping) {
        const std::string path = before + entry.first.Scalar();
        file.lines[path] = entry.first.Mark().line + 1;
        if (entry.second.IsMap()) note_lines(entry.second, path + ".", file);
    }
}

// A word of a shell script, and whether a quote stood in it.
struct Word {
    std::string text;
    int line = 1;
};

// Splits a script into commands of words: quotes, escapes, comments, continued lines, and variables
// that the script itself assigns.
class ShellReader {
public:
    explicit ShellReader(const std::string& script) : script_(script) {}

    std::vector<std::vector<Word>> commands() {
        while (at_ < script_.size()) read();
        end_command();
        return std::move(commands_);
    }

private:
    void read() {
        const char c = script_[at_];
        if (c == '\\' && next() == '\n') {
            at_ += 2;
            ++line_;
        } else if (c == '\\') {
            add(next());
            at_ += 2;
        } else if (c == '\n' || c == ';' || c == '&' || c == '|') {
            end_command();
            line_ += c == '\n' ? 1 : 0;
            ++at_;
        } else if (c == ' ' || c == '\t' || c == '\r') {
            end_word();
            ++at_;
        } else if (c == '#' && !in_word_) {
            while (at_ < script_.size() && script_[at_] != '\n') ++at_;
        } else if (c == '\'') {
            read_single();
        } else if (c == '"') {
            read_double();
        } else if (c == '$') {
            read_variable();
        } else {
            add(c);
            ++at_;
        }
    }
    char next() const { return at_ + 1 < script_.size() ? script_[at_ + 1] : '\0'; }
    void add(char c) {
        if (c == '\0') return;
        begin_word();
        word_.text += c;
    }
    void begin_word() {
        if (!in_word_) word_.line = line_;
        in_word_ = true;
    }
    void read_single() {
        begin_word();
        for (++at_; at_ < script_.size() && script_[at_] != '\''; ++at_) {
            line_ += script_[at_] == '\n' ? 1 : 0;
            word_.text += script_[at_];
        }
        ++at_;
    }
    void read_double() {
        begin_word();
        for (++at_; at_ < script_.size() && script_[at_] != '"';) {
            const char c = script_[at_];
            const bool is_escape =
                c == '\\' && std::string_view("\"\\$`\n").find(next()) != std::string_view::npos;
            if (c == '$') {
                read_variable();
                continue;
            }
            line_ += c == '\n' ? 1 : 0;
            if (is_escape && next() != '\n') word_.text += next();
            if (!is_escape) word_.text += c;
            at_ += is_escape ? 2 : 1;
        }
        ++at_;
    }
    // $NAME, ${NAME} and ${NAME:-otherwise}.
    void read_variable() {
        begin_word();
        const size_t begin = at_++;
        const bool braced = at_ < script_.size() && script_[at_] == '{';
        at_ += braced ? 1 : 0;
        std::string name;
        const auto is_part = [](char c) {
            return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '@' ||
                   c == '*';
        };
        while (at_ < script_.size() && is_part(script_[at_])) name += script_[at_++];
        std::string otherwise;
        bool has_otherwise = false;
        if (braced) {
            const size_t end = std::min(script_.find('}', at_), script_.size());
            std::string rest = script_.substr(at_, end - at_);
            has_otherwise = rest.starts_with(":-") || rest.starts_with("-");
            if (has_otherwise) otherwise = rest.substr(rest.find('-') + 1);
            at_ = std::min(end + 1, script_.size());
        }
        if (name == "@" || name == "*" || name.empty()) return;  // what the caller adds
        const auto known = variables_.find(name);
        if (known != variables_.end())
            word_.text += known->second;
        else if (has_otherwise)
            word_.text += otherwise;
        else
            word_.text += script_.substr(begin, at_ - begin);
    }
    void end_word() {
        if (!in_word_) return;
        const size_t equals = word_.text.find('=');
        const std::string name = word_.text.substr(0, equals);
        const bool is_assignment =
            words_.empty() && equals != std::string::npos && !name.empty() &&
            std::ranges::all_of(name, [](char c) {
                return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
            });
        if (is_assignment)
            variables_[name] = word_.text.substr(equals + 1);
        else if (words_.size() != 0 || word_.text != "export")
            words_.push_back(word_);
        word_ = {};
        in_word_ = false;
    }
    void end_command() {
        end_word();
        if (!words_.empty()) commands_.push_back(std::move(words_));
        words_.clear();
    }

    const std::string& script_;
    size_t at_ = 0;
    int line_ = 1;
    bool in_word_ = false;
    Word word_;
    std::vector<Word> words_;
    std::vector<std::vector<Word>> commands_;
    std::map<std::string, std::string> variables_;
};

// Returns the number of words up to the trainer's command: `swift sft`, `megatron sft`, or a script
// of swift under python or torchrun; 0: another command.
size_t words_of_trainer(const std::vector<Word>& words) {
    for (size_t i = 0; i < words.size(); ++i) {
        const std::string& word = words[i].text;
        if (word.starts_with("--")) return 0;
        const bool is_sub =
            i + 1 < words.size() && (words[i + 1].text == "sft" || words[i + 1].text == "pt");
        if ((word == "swift" || word == "megatron") && is_sub) return i + 2;
        if (word.ends_with("swift/cli/sft.py") || word.ends_with("swift/cli/pt.py")) return i + 1;
    }
    return 0;
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

void read_flags(const std::vector<Word>& words, size_t first, ForeignFile& file,
                Problems& problems) {
    for (size_t i = first; i < words.size();) {
        std::string flag = words[i].text;
        if (!flag.starts_with("--")) {
            problems.push_back(
                {ExitCode::settings, format_text("{}:{}: unexpected word '{}' in the command",
                                                 file.name, words[i].line, flag)});
            ++i;
            continue;
        }
        flag = flag.substr(2);
        std::vector<std::string> values;
        if (const size_t equals = flag.find('='); equals != std::string::npos) {
            values.push_back(flag.substr(equals + 1));
            flag = flag.substr(0, equals);
        }
        std::ranges::replace(flag, '-', '_');
        file.lines[flag] = words[i].line;
        for (++i; i < words.size() && !words[i].text.starts_with("--"); ++i)
            values.push_back(words[i].text);
        file.content[flag] = flag_value(values);
    }
}

}  // namespace

ForeignFile read_foreign_yaml(const std::string& text, const std::string& name) {
    const YAML::Node root = YAML::Load(text);
    ForeignFile file{.name = name};
    file.content = to_json(root);
    note_lines(root, "", file);
    return file;
}

ForeignFile read_foreign_shell(const std::string& script, const std::string& name,
                               Problems& problems) {
    ForeignFile file{.name = name};
    const auto commands = ShellReader(script).commands();
    const auto found = std::ranges::find_if(
        commands, [](const auto& words) { return words_of_trainer(words) > 0; });
    if (found == commands.end()) {
        problems.push_back({ExitCode::settings,
                            format_text("{}: has no command `swift sft`, `swift pt`, `megatron "
                                        "sft` or `megatron pt`",
                                        name)});
        return file;
    }
    for (const Word& word : *found)
        if (word.text.find('$') != std::string::npos)
            problems.push_back(
                {ExitCode::settings,
                 format_text("{}:{}: '{}' holds a variable that the script does not set; set it "
                             "above the command",
                             name, word.line, word.text)});
    const size_t first = words_of_trainer(*found);
    std::string command = (*found)[first - 1].text;
    if (first >= 2 &&
        ((*found)[first - 2].text == "swift" || (*found)[first - 2].text == "megatron"))
        command = (*found)[first - 2].text + " " + command;
    read_flags(*found, first, file, problems);
    file.content["command"] = command;
    return file;
}

}  // namespace ringshard::config
