#include "row_template.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "ringshard/base/files.hpp"
#include "row_columns.hpp"

namespace ringshard::data {

using text::ChatTemplate;
using text::Value;

namespace {

bool is_template(const std::string& text) {
    return text.find("{{") != std::string::npos || text.find("{%") != std::string::npos ||
           text.find("{#") != std::string::npos;
}

// Names of Jinja's own functions.
bool is_function(const std::string& name) {
    static constexpr std::array functions{"range",  "dict",   "namespace",       "cycler",
                                          "joiner", "lipsum", "raise_exception", "strftime_now"};
    return std::ranges::find(functions, name) != functions.end();
}

bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Removes white space and then the word from the front of a text; false, and nothing removed, if
// something else is there.
bool take_word(std::string_view& text, std::string_view word) {
    const std::string_view rest =
        text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (!rest.starts_with(word)) return false;
    if (rest.size() > word.size() && is_of_name(word.back()) && is_of_name(rest[word.size()]))
        return false;
    text = rest.substr(word.size());
    return true;
}

// Returns true if the text, which ends before a name, ends with {% set or {%- set.
bool ends_with_set(std::string_view before) {
    const size_t tag = before.rfind("{%");
    if (tag == std::string_view::npos) return false;
    std::string_view inside = before.substr(tag + 2);
    if (inside.starts_with('-')) inside.remove_prefix(1);
    return take_word(inside, "set") && trim(inside).empty();
}

// Returns true if the template asks whether the name is defined, has a default for it, or sets it.
bool may_lack(const std::string& source, const std::string& name) {
    for (size_t at = source.find(name); at != std::string::npos; at = source.find(name, at + 1)) {
        if (at > 0 && is_of_name(source[at - 1])) continue;
        std::string_view after = std::string_view(source).substr(at + name.size());
        if (after.empty() || is_of_name(after.front())) continue;
        std::string_view question = after;
        if (take_word(question, "is")) {
            take_word(question, "not");
            if (take_word(question, "defined") || take_word(question, "undefined")) return true;
        }
        question = after;
        if (take_word(question, "|") &&
            (take_word(question, "default") || take_word(question, "d")))
            return true;
        question = after;
        if (take_word(question, "=") && ends_with_set(std::string_view(source).substr(0, at)))
            return true;
    }
    return false;
}

// Returns the name if the text is {{ name }} and nothing else.
std::string lone_name(const std::string& text) {
    std::string_view inside = trim(text);
    if (!inside.starts_with("{{") || !inside.ends_with("}}")) return {};
    inside.remove_prefix(2);
    inside.remove_suffix(std::min<size_t>(2, inside.size()));
    if (inside.starts_with('-')) inside.remove_prefix(1);
    if (inside.ends_with('-')) inside.remove_suffix(1);
    const std::string_view name = trim(inside);
    const bool is_name = !name.empty() && std::ranges::all_of(name, is_of_name) &&
                         std::isdigit(static_cast<unsigned char>(name.front())) == 0;
    return is_name ? std::string(name) : "";
}

const Value* find_in(const Value::Object& members, const std::string& name) {
    const auto found = std::ranges::find(members, name, &Value::Object::value_type::first);
    return found == members.end() ? nullptr : &found->second;
}

bool means_no(const std::string& text) {
    const std::string word = lower_case(trim(text));
    return word.empty() || word == "false" || word == "none" || word == "0";
}

constexpr const char* condition = "if";
constexpr std::string_view parsed_mark = "_from_json";

}  // namespace

// A value of the mapping: a constant, a template, a list or an object.
struct RowTemplate::Node {
    Value constant;
    std::optional<ChatTemplate> source;
    std::string lone;                   // the name, if the template is {{ name }}
    std::vector<std::string> required;  // names that the template needs
    std::vector<std::shared_ptr<const Node>> items;
    std::vector<std::pair<std::string, std::shared_ptr<const Node>>> members;
    std::shared_ptr<const Node> only_if;  // of an item of a list
    enum class Kind { constant, text, list, object, whole } kind = Kind::constant;
};

class RowTemplate::Reader {
public:
    Expected<std::shared_ptr<const Node>> read(const Value& value, const std::string& path) {
        Node node;
        if (const std::string* text = value.string(); text != nullptr && is_template(*text)) {
            if (auto failure = read_template(*text, path, node)) return *failure;
            node.kind = Node::Kind::text;
            node.lone = lone_name(*text);
        } else if (const Value::List* list = value.list()) {
            node.kind = Node::Kind::list;
            for (size_t i = 0; i < list->size(); ++i) {
                auto item = read((*list)[i], format_text("{}[{}]", path, i));
                if (!item) return item;
                node.items.push_back(std::move(item).value());
            }
        } else if (const Value::Object* members = value.object()) {
            node.kind = Node::Kind::object;
            for (const auto& [name, member] : *members) {
                auto read_member = read(member, format_text("{}.{}", path, name));
                if (!read_member) return read_member;
                if (name == condition)
                    node.only_if = std::move(read_member).value();
                else
                    node.members.emplace_back(name, std::move(read_member).value());
            }
        } else {
            node.constant = value;
        }
        return std::shared_ptr<const Node>(std::make_shared<Node>(std::move(node)));
    }

    Expected<std::shared_ptr<const Node>> read_whole(const std::string& source) {
        Node node;
        if (auto failure = read_template(source, "row_template", node)) return *failure;
        node.kind = Node::Kind::whole;
        return std::shared_ptr<const Node>(std::make_shared<Node>(std::move(node)));
    }

    std::vector<std::string> names;

private:
    std::optional<Failure> read_template(const std::string& source, const std::string& path,
                                         Node& node) {
        // Jinja drops a line break at the end of a template; a row keeps it.
        const bool breaks = source.ends_with('\n');
        auto parsed = ChatTemplate::parse(breaks ? source + "{{ '' }}" : source, path);
        if (!parsed) return Failure{ExitCode::settings, parsed.failure().message};
        for (const std::string& name : parsed.value().outside_names()) {
            if (is_function(name)) continue;
            if (std::ranges::find(names, name) == names.end()) names.push_back(name);
            if (!may_lack(source, name)) node.required.push_back(name);
        }
        node.source.emplace(std::move(parsed).value());
        return std::nullopt;
    }
};

Expected<RowTemplate> RowTemplate::parse(const std::string& source, Value::Object variables) {
    RowTemplate made;
    Reader reader;
    const auto mapping = text::read_json(source);
    auto root = mapping && mapping.value().object() != nullptr
                    ? reader.read(mapping.value(), "row_template")
                    : reader.read_whole(source);
    if (!root) return root.failure();
    made.root_ = std::move(root).value();
    made.variables_ = std::move(variables);
    for (std::string& name : reader.names) {
        if (name.ends_with(parsed_mark)) {
            made.parsed_.emplace_back(name, name.substr(0, name.size() - parsed_mark.size()));
            made.names_.push_back(made.parsed_.back().second);
        }
        made.names_.push_back(std::move(name));
    }
    return made;
}

Expected<std::string> RowTemplate::render_text(const Node& node,
                                               const Value::Object& variables) const {
    for (const std::string& name : node.required)
        if (find_in(variables, name) == nullptr)
            return bad_row(format_text(
                "{} needs {}, which is no column of this row and no name in template_variables; "
                "{{{{ {} | default('') }}}} gives it a default",
                node.source->name(), name, name));
    return node.source->render(variables);
}

Expected<Value> RowTemplate::render(const Node& node, const Value::Object& variables) const {
    switch (node.kind) {
        case Node::Kind::constant: return node.constant;
        case Node::Kind::text: {
            const Value* value = node.lone.empty() ? nullptr : find_in(variables, node.lone);
            if (value != nullptr && (value->list() != nullptr || value->object() != nullptr))
                return *value;
            auto text = render_text(node, variables);
            if (!text) return text.failure();
            return Value(std::move(text).value());
        }
        case Node::Kind::list: {
            Value::List list;
            for (const auto& item : node.items) {
                if (item->only_if != nullptr) {
                    const auto says = render(*item->only_if, variables);
                    if (!says) return says;
                    const std::string* text = says.value().string();
                    if (text != nullptr && means_no(*text)) continue;
                }
                auto made = render(*item, variables);
                if (!made) return made;
                list.push_back(std::move(made).value());
            }
            return Value(std::move(list));
        }
        case Node::Kind::object: {
            Value::Object object;
            for (const auto& [name, member] : node.members) {
                auto made = render(*member, variables);
                if (!made) return made;
                object.emplace_back(name, std::move(made).value());
            }
            return Value(std::move(object));
        }
        case Node::Kind::whole: {
            const auto text = render_text(node, variables);
            if (!text) return text.failure();
            auto row = text::read_json(text.value());
            if (!row || row.value().object() == nullptr)
                return bad_row(format_text(
                    "row_template has to render a JSON object, and {}",
                    row ? format_text("rendered {}", row.value().kind()) : row.failure().message));
            return row;
        }
    }
    return Value();
}

Expected<Value> RowTemplate::apply(const Value& row) const {
    Value::Object variables = *row.object();
    for (const auto& [name, value] : variables_)
        if (find_in(variables, name) == nullptr) variables.emplace_back(name, value);
    for (const auto& [name, column] : parsed_) {
        const Value* text = find_in(variables, column);
        if (text == nullptr || find_in(variables, name) != nullptr) continue;
        auto value = text->string() != nullptr ? text::read_json(*text->string()) : Expected(*text);
        if (!value)
            return bad_row(
                format_text("{}: column {} is no JSON: {}", name, column, value.failure().message));
        variables.emplace_back(name, std::move(value).value());
    }
    return render(*root_, variables);
}

Expected<std::string> read_row_template(const std::string& setting) {
    if (setting.find('{') != std::string::npos) return setting;
    auto content = read_file(setting);
    if (!content)
        return Failure{ExitCode::missing_input,
                       format_text("row_template = {}: there is no such file; it is a mapping such "
                                   R"(as {{"prompt": "{{{{question}}}}"}}, a template, or a file)",
                                   setting)};
    return std::move(*content);
}

Expected<Value::Object> read_template_variables(const std::string& setting) {
    if (setting.empty()) return Value::Object();
    auto value = text::read_json(setting);
    if (!value || value.value().object() == nullptr)
        return Failure{
            ExitCode::settings,
            format_text(R"(template_variables = {}: must be a mapping, such as {{"NAME": "Ann"}})",
                        setting)};
    return std::move(*value.value().object());
}

namespace {

// Replaces the placeholders of one text.
std::optional<Failure> fill_text(std::string& text, const Value::Object& variables) {
    static const std::string begin = "{{";
    static const std::string end = "}}";
    const auto is_capital = [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; };
    for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
        const size_t last = text.find(end, at);
        if (last == std::string::npos) return std::nullopt;
        const std::string name(trim(text.substr(at + 2, last - at - 2)));
        const Value* value = find_in(variables, name);
        if (value != nullptr) {
            const std::string content =
                value->string() != nullptr ? *value->string() : to_json(*value);
            text.replace(at, last + 2 - at, content);
            at += content.size();
            continue;
        }
        if (!name.empty() && std::ranges::all_of(name, is_capital))
            return bad_row(
                format_text("holds {{{{{}}}}}, and template_variables has no {}", name, name));
        at += begin.size();
    }
    return std::nullopt;
}

}  // namespace

std::optional<Failure> fill_placeholders(Value& value, const Value::Object& variables) {
    if (const std::string* text = value.string()) {
        std::string filled = *text;
        if (auto failure = fill_text(filled, variables)) return failure;
        value = Value(std::move(filled));
    } else if (Value::List* list = value.list()) {
        for (Value& item : *list)
            if (auto failure = fill_placeholders(item, variables)) return failure;
    } else if (Value::Object* members = value.object()) {
        for (auto& [name, member] : *members)
            if (auto failure = fill_placeholders(member, variables)) return failure;
    }
    return std::nullopt;
}

}  // namespace ringshard::data
