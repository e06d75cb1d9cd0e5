#include "shell_reader.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "ringshard/base/text.hpp"

namespace ringshard::config {

namespace {

using Variables = std::map<std::string, std::string>;

bool is_name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Computes "16 / 2 * 3" with whole numbers, as the shell does; null where it holds anything else.
class Arithmetic {
public:
    Arithmetic(std::string text, const Variables& variables)
        : text_(std::move(text)), variables_(variables) {}

    std::optional<int64_t> value() {
        auto sum = product();
        while (sum && (peek() == '+' || peek() == '-')) {
            const int64_t sign = text_[at_++] == '+' ? 1 : -1;
            const auto next = product();
            sum = next ? std::optional(*sum + sign * *next) : std::nullopt;
        }
        return peek() == '\0' ? sum : std::nullopt;
    }

private:
    char peek() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\\')) ++at_;
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    std::optional<int64_t> product() {
        auto result = operand();
        for (char c = peek(); result && (c == '*' || c == '/' || c == '%'); c = peek()) {
            ++at_;
            const auto next = operand();
            if (!next || (c != '*' && *next == 0)) return std::nullopt;
            result = c == '*' ? *result * *next : c == '/' ? *result / *next : *result % *next;
        }
        return result;
    }
    std::optional<int64_t> operand() {
        if (peek() == '$') ++at_;
        const bool is_braced = peek() == '{';
        at_ += is_braced ? 1 : 0;
        std::string name;
        while (is_name_part(at_ < text_.size() ? text_[at_] : ' ')) name += text_[at_++];
        if (is_braced && peek() == '}') ++at_;
        if (const auto known = variables_.find(name); known != variables_.end())
            name = known->second;
        const bool is_number =
            !name.empty() && name.size() < 10 &&
            std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
        return is_number ? std::optional<int64_t>(std::stoll(name)) : std::nullopt;
    }

    const std::string text_;
    const Variables& variables_;
    size_t at_ = 0;
};

class ShellReader {
public:
    explicit ShellReader(const std::string& script) : script_(script) {}

    std::vector<std::vector<ShellWord>> commands() {
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
            read_dollar();
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
                read_dollar();
                continue;
            }
            line_ += c == '\n' ? 1 : 0;
            if (is_escape && next() != '\n') word_.text += next();
            if (!is_escape) word_.text += c;
            at_ += is_escape ? 2 : 1;
        }
        ++at_;
    }
    void read_dollar() {
        begin_word();
        if (next() == '(')
            read_substitution();
        else
            read_variable();
    }
    // $((16 / n)) and $(expr 16 / $n); the words of any other command stay as they are.
    void read_substitution() {
        const size_t begin = at_;
        int depth = 0;
        for (++at_; at_ < script_.size(); ++at_) {
            depth += script_[at_] == '(' ? 1 : script_[at_] == ')' ? -1 : 0;
            if (depth == 0) break;
        }
        at_ = std::min(at_ + 1, script_.size());
        const std::string whole = script_.substr(begin, at_ - begin);
        line_ += static_cast<int>(std::ranges::count(whole, '\n'));
        std::string inner;
        if (whole.starts_with("$((") && whole.ends_with("))"))
            inner = whole.substr(3, whole.size() - 5);
        else if (whole.starts_with("$(expr ") && whole.ends_with(')'))
            inner = whole.substr(7, whole.size() - 8);
        const auto value = Arithmetic(inner, variables_).value();
        word_.text += value ? std::to_string(*value) : whole;
    }
    // $NAME, ${NAME} and ${NAME:-otherwise}.
    void read_variable() {
        const size_t begin = at_++;
        const bool braced = at_ < script_.size() && script_[at_] == '{';
        at_ += braced ? 1 : 0;
        std::string name;
        while (at_ < script_.size() &&
               (is_name_part(script_[at_]) || script_[at_] == '@' || script_[at_] == '*'))
            name += script_[at_++];
        std::optional<std::string> otherwise;
        if (braced) {
            const size_t end = std::min(script_.find('}', at_), script_.size());
            const std::string rest = script_.substr(at_, end - at_);
            if (rest.starts_with(":-") || rest.starts_with("-"))
                otherwise = rest.substr(rest.find('-') + 1);
            at_ = std::min(end + 1, script_.size());
        }
        if (name == "@" || name == "*" || name.empty()) return;  // what the caller adds
        const auto known = variables_.find(name);
        if (known != variables_.end())
            word_.text += known->second;
        else
            word_.text += otherwise.value_or(script_.substr(begin, at_ - begin));
    }
    void end_word() {
        if (!in_word_) return;
        const size_t equals = word_.text.find('=');
        const std::string name = word_.text.substr(0, equals);
        const bool is_assignment = words_.empty() && equals != std::string::npos && !name.empty() &&
                                   std::ranges::all_of(name, is_name_part);
        if (is_assignment)
            variables_[name] = word_.text.substr(equals + 1);
        else if (!words_.empty() || word_.text != "export")
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
    ShellWord word_;
    std::vector<ShellWord> words_;
    std::vector<std::vector<ShellWord>> commands_;
    Variables variables_;
};

}  // namespace

std::vector<std::vector<ShellWord>> read_shell(const std::string& script) {
    return ShellReader(script).commands();
}

}  // namespace ringshard::config
