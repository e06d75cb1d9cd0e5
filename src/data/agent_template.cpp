#include "agent_template.hpp"

#include "row_columns.hpp"

namespace ringshard::data {

using text::ChatTemplate;
using text::Value;

namespace {

// The templates get `tools`, `system` and `calls`, a list of objects with name and arguments.
constexpr std::string_view hermes_tools = R"jinja({{ system }}

# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{% for tool in tools %}
{%- set wrapped = tool if tool.type is defined or tool.function is defined else
    {'type': 'function', 'function': tool} -%}
{{ wrapped | tojson }}
{% endfor -%}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>)jinja";

constexpr std::string_view hermes_calls = R"jinja({%- for call in calls -%}
<tool_call>
{{ call | tojson }}
</tool_call>
{{- '\n' if not loop.last else '' -}}
{%- endfor -%})jinja";

constexpr std::string_view react_tools =
    R"jinja(Answer the following questions as best you can. You have access to the following tools:

{% set names = namespace(all=[]) -%}
{%- for tool in tools -%}
{%- set one = tool.function if tool.type is defined and tool.function is defined else tool -%}
{%- set name = one.name_for_model or one.name -%}
{%- set human = one.name_for_human or name -%}
{%- set about = one.description if one.description is string else one.description_for_model -%}
{%- set parameters = one.parameters or {} -%}
{%- set names.all = names.all + [name] -%}
{{ name }}: Call this tool to interact with the {{ human }} API. What is the {{ human }} API useful for? {{ about }} Parameters: {{ parameters if parameters is string else parameters | tojson }} Format the arguments as a JSON object.
{{- '\n\n' -}}
{%- endfor -%}
Use the following format:

Question: the input question you must answer
Thought: you should always think about what to do
Action: the action to take, should be one of [{{ names.all | join(',') }}]
Action Input: the input to the action
Observation: the result of the action
... (this Thought/Action/Action Input/Observation can be repeated zero or more times)
Thought: I now know the final answer
Final Answer: the final answer to the original input question

Begin!
{{ '' }})jinja";

// The arguments are written as Python prints them.
constexpr std::string_view react_calls = R"jinja({%- for call in calls -%}
Action: {{ call.name }}
Action Input: {{ call.arguments }}
{% endfor -%}
Observation:)jinja";

constexpr std::string_view action = "Action:";
constexpr std::string_view action_input = "Action Input:";
constexpr std::string_view observation = "Observation:";

std::string role_of(const Value& message) {
    const Value* role = message.find("role");
    return role != nullptr && role->string() != nullptr ? *role->string() : "";
}

bool is_result(const std::string& role) { return role == "tool" || role == "tool_response"; }

Value text_value(std::string_view text) { return Value(std::string(text)); }

// Returns the text that the chat template writes where a conversation has no system message.
std::string default_system_of(const TextTools& tools) {
    const std::string marker = "system?";
    const auto message = [](const char* role, const std::string& content) {
        return Value(
            Value::Object{{"role", Value(std::string(role))}, {"content", Value(content)}});
    };
    Value::List messages{message("user", "question")};
    const auto without = tools.render({.messages = Value(messages)}, false);
    messages.insert(messages.begin(), message("system", marker));
    const auto with = tools.render({.messages = Value(std::move(messages))}, false);
    if (!without || !with) return {};
    const std::string& text = without.value().text;
    const std::string& marked = with.value().text;
    const size_t begin = marked.find(marker);
    if (begin == std::string::npos) return {};
    const std::string behind = marked.substr(begin + marker.size());
    if (text.size() < begin + behind.size() || !text.starts_with(marked.substr(0, begin)) ||
        !text.ends_with(behind))
        return {};
    return text.substr(begin, text.size() - begin - behind.size());
}

}  // namespace

struct AgentTemplate::Form {
    ChatTemplate tools;
    ChatTemplate calls;
    bool has_messages_of_results;  // a result is a message of the user, and not in the answer
    std::string default_system;
};

Expected<AgentTemplate> AgentTemplate::make(const std::string& form, const TextTools& of_model) {
    const bool is_hermes = form == "hermes";
    if (!is_hermes && form != "react_en")
        return Failure{ExitCode::settings,
                       format_text("agent_template = {}: must be hermes or react_en", form)};
    const std::string name = "agent_template " + form;
    auto tools = ChatTemplate::parse(std::string(is_hermes ? hermes_tools : react_tools), name);
    if (!tools) return tools.failure();
    auto calls = ChatTemplate::parse(std::string(is_hermes ? hermes_calls : react_calls), name);
    if (!calls) return calls.failure();
    AgentTemplate made;
    made.form_ =
        std::make_shared<const Form>(Form{std::move(tools).value(), std::move(calls).value(),
                                          is_hermes, default_system_of(of_model)});
    return made;
}

// Writes one chat.
class AgentTemplate::Writer {
public:
    Writer(const Form& form, TextTools::Chat& chat) : form_(form), chat_(chat) {}

    std::optional<Failure> write() {
        const Value::List messages = *chat_.messages.list();
        if (chat_.tools.list() != nullptr && !chat_.tools.list()->empty())
            if (auto failure = write_tools(messages)) return failure;
        for (size_t at = num_taken_; at < messages.size();) {
            const auto taken = take(messages, at);
            if (!taken) return taken.failure();
            at += taken.value();
        }
        chat_.messages = Value(std::move(into_));
        chat_.tools = Value();
        return std::nullopt;
    }

private:
    // Writes the system message with the tools.
    std::optional<Failure> write_tools(const Value::List& messages) {
        const bool has_system = role_of(messages.front()) == "system";
        const Value* content = has_system ? messages.front().find("content") : nullptr;
        if (content != nullptr && content->string() == nullptr)
            return bad_row("agent_template: the content of the system message is no text");
        const auto text = form_.tools.render(Value::Object{
            {"tools", chat_.tools},
            {"system", content != nullptr ? *content : text_value(form_.default_system)}});
        if (!text) return bad_row(text.failure().message);
        Value message =
            has_system ? messages.front() : Value(Value::Object{{"role", text_value("system")}});
        message.set("content", Value(text.value()));
        into_.push_back(std::move(message));
        num_taken_ = has_system ? 1 : 0;
        return std::nullopt;
    }

    // Takes the message at a place, and those behind it that belong to it; returns their number.
    Expected<size_t> take(const Value::List& messages, size_t at) {
        const std::string role = role_of(messages[at]);
        if (is_result(role)) return take_results(messages, at);
        if (role == "tool_call") {
            Value::List calls;
            size_t end = at;
            for (; end < messages.size() && role_of(messages[end]) == "tool_call"; ++end) {
                auto call = read_call(messages[end].find("content"));
                if (!call) return call.failure();
                calls.push_back(std::move(call).value());
            }
            if (auto failure = add_calls(std::move(calls), messages[at])) return *failure;
            return end - at;
        }
        if (role != "assistant") {
            into_.push_back(messages[at]);
            num_parts_ = 0;
            continues_ = false;
            return size_t{1};
        }
        if (auto failure = take_answer(messages[at])) return *failure;
        return size_t{1};
    }

    std::optional<Failure> take_answer(const Value& message) {
        const Value* content = message.find("content");
        const Value* list = message.find("tool_calls");
        const bool has_calls = list != nullptr && list->list() != nullptr && !list->list()->empty();
        if (content != nullptr && content->string() != nullptr &&
            (!content->string()->empty() || !has_calls))
            add_answer(*content->string(), message);
        else if (content != nullptr && content->string() == nullptr && !content->is_null())
            return bad_row("agent_template: the content of an assistant's message is no text");
        if (!has_calls) return std::nullopt;
        Value::List calls;
        for (const Value& call : *list->list()) {
            const Value* function = call.find("function");
            auto read = read_call(function != nullptr ? function : &call);
            if (!read) return read.failure();
            calls.push_back(std::move(read).value());
        }
        return add_calls(std::move(calls), message);
    }

    // Reads an object with name and arguments, or its JSON.
    static Expected<Value> read_call(const Value* given) {
        const Failure wrong = bad_row(
            "agent_template: a tool call is no object with name and arguments, nor its JSON");
        if (given == nullptr) return wrong;
        Value call = *given;
        if (call.string() != nullptr) {
            auto read = text::read_json(*call.string());
            if (!read) return wrong;
            call = std::move(read).value();
        }
        const Value* name = call.find("name");
        const Value* arguments = call.find("arguments");
        if (arguments == nullptr || arguments->is_null()) arguments = call.find("parameters");
        if (name == nullptr || arguments == nullptr || arguments->is_null()) return wrong;
        Value parsed = *arguments;
        if (parsed.string() != nullptr) {
            auto read = text::read_json(*parsed.string());
            if (!read) return wrong;
            parsed = std::move(read).value();
        }
        return Value(Value::Object{{"name", *name}, {"arguments", std::move(parsed)}});
    }

    std::optional<Failure> add_calls(Value::List calls, const Value& message) {
        const auto text = form_.calls.render(Value::Object{{"calls", Value(std::move(calls))}});
        if (!text) return bad_row(text.failure().message);
        add_answer(text.value(), message);
        return std::nullopt;
    }

    // Adds to the assistant's message that is the last one, or begins one.
    void add_answer(const std::string& text, const Value& message) {
        ++num_parts_;
        if (num_parts_ > 1 || continues_) {
            extend(text);
        } else {
            Value answer = message;
            answer.set("role", text_value("assistant"));
            answer.set("content", Value(text));
            std::erase_if(*answer.object(),
                          [](const auto& member) { return member.first == "tool_calls"; });
            into_.push_back(std::move(answer));
        }
        continues_ = false;
    }

    const std::string& last_content() const { return *into_.back().find("content")->string(); }
    void extend(std::string_view text) {
        into_.back().set("content", Value(last_content() + std::string(text)));
    }

    Expected<size_t> take_results(const Value::List& messages, size_t at) {
        std::vector<std::string> results;
        size_t end = at;
        for (; end < messages.size() && is_result(role_of(messages[end])); ++end) {
            const Value* content = messages[end].find("content");
            if (content == nullptr || content->string() == nullptr)
                return bad_row("agent_template: the content of a tool's result is no text");
            results.push_back(*content->string());
        }
        if (num_parts_ == 0)
            return bad_row(
                "agent_template: the result of a tool follows no answer of the assistant");
        const std::string& answer = last_content();
        const bool has_action = num_parts_ == 1 && answer.find(action) != std::string::npos &&
                                answer.find(action_input) != std::string::npos;
        if (has_action || !form_.has_messages_of_results)
            add_to_answer(results, has_action);
        else
            add_message(results);
        return end - at;
    }

    void add_message(const std::vector<std::string>& results) {
        std::string all;
        for (const std::string& result : results)
            all += format_text("{}<tool_response>\n{}\n</tool_response>", all.empty() ? "" : "\n",
                               result);
        into_.emplace_back(
            Value::Object{{"role", text_value("user")}, {"content", Value(std::move(all))}});
        num_parts_ = 0;
    }

    void add_to_answer(const std::vector<std::string>& results, bool has_action) {
        if (has_action && !last_content().ends_with(observation)) {
            if (!last_content().ends_with('\n')) extend("\n");
            extend(observation);
        }
        const size_t begin = last_content().size();
        for (const std::string& result : results) {
            if (has_action && &result != results.data()) extend(observation);
            extend(result);
            if (has_action && !result.ends_with('\n')) extend("\n");
        }
        chat_.unlearned.push_back({into_.size() - 1, {begin, last_content().size()}});
        num_parts_ = 0;
        continues_ = true;
    }

    const Form& form_;
    TextTools::Chat& chat_;
    Value::List into_;
    size_t num_taken_ = 0;    // messages that write_tools() took
    size_t num_parts_ = 0;    // of the answer that is the last message, since the last result
    bool continues_ = false;  // the last message ends with a result, and the answer goes on
};

Expected<TextTools::Chat> AgentTemplate::apply(TextTools::Chat chat) const {
    if (auto failure = Writer(*form_, chat).write()) return *failure;
    return chat;
}

}  // namespace ringshard::data
