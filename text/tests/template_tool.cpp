// Renders chat templates for tests in Python: a line of JSON in, a line of JSON out.
//   in:  {"template", "messages", "tools", "documents", "kwargs", "add_generation_prompt",
//         "continue_final_message": true or a field, "now": [year, month, day, hour, minute,
//         second], "training": true for the training template of the template}
//   out: {"text", "spans": [[begin, end], ...] in code points} or {"error"}
#include <iostream>
#include <map>

#include "ringshard/base/utf8.hpp"
#include "ringshard/text/assistant_spans.hpp"
#include "ringshard/text/training_template.hpp"

using namespace ringshard;
using namespace ringshard::text;

namespace {

// Also for ends beyond the text.
Value in_code_points(size_t byte, std::string_view text) {
    const size_t inside = std::min(byte, text.size());
    return Value(static_cast<int64_t>(count_code_points(text.substr(0, inside)) + byte - inside));
}

std::tm time_of(const Value& parts) {
    const auto& numbers = *parts.list();
    const auto number = [&](size_t i) { return static_cast<int>(*numbers.at(i).integer()); };
    std::tm time{};
    time.tm_year = number(0) - 1900;
    time.tm_mon = number(1) - 1;
    time.tm_mday = number(2);
    time.tm_hour = number(3);
    time.tm_min = number(4);
    time.tm_sec = number(5);
    time.tm_isdst = -1;
    timegm(&time);
    return time;
}

Value failed(const Failure& failure) {
    return Value(Value::Object{{"error", Value(failure.message)}});
}

class Tool {
public:
    Value answer(const Value& row) {
        std::string source = *row.find("template")->string();
        if (row.find("training") != nullptr) {
            auto made = make_training_template(source);
            if (!made) return failed({ExitCode::bad_data, "no family ships the template"});
            source = std::move(made->source);
        }
        const auto known = templates_.find(source);
        if (known == templates_.end()) {
            auto parsed = ChatTemplate::parse(source, "the template");
            if (!parsed) return failed(parsed.failure());
            return render(templates_.emplace(source, std::move(parsed).value()).first->second, row);
        }
        return render(known->second, row);
    }

private:
    static Value render(ChatTemplate& chat_template, const Value& row) {
        if (const Value* now = row.find("now"))
            chat_template.set_clock([time = time_of(*now)] { return time; });
        Conversation conversation;
        const Value* messages = row.find("messages");
        if (messages == nullptr || messages->list() == nullptr)
            return failed({ExitCode::bad_data, "messages is no list"});
        conversation.messages = *messages->list();
        conversation.tools = row.find("tools");
        conversation.documents = row.find("documents");
        if (const Value* variables = row.find("kwargs"))
            conversation.variables = variables->object();
        if (const Value* prompt = row.find("add_generation_prompt"))
            conversation.add_generation_prompt = prompt->truth() != nullptr && *prompt->truth();
        if (const Value* field = row.find("continue_final_message")) {
            if (field->string() != nullptr) conversation.continued_field = *field->string();
            if (field->truth() != nullptr && *field->truth())
                conversation.continued_field = "content";
        }
        const auto rendered = chat_template.render(conversation);
        if (!rendered) return failed(rendered.failure());
        Value::List spans;
        for (const ByteRange& span : rendered.value().assistant)
            spans.emplace_back(Value::List{in_code_points(span.begin, rendered.value().text),
                                           in_code_points(span.end, rendered.value().text)});
        return Value(Value::Object{{"text", Value(rendered.value().text)},
                                   {"spans", Value(std::move(spans))}});
    }

    std::map<std::string, ChatTemplate> templates_;
};

}  // namespace

int main() {
    std::ios::sync_with_stdio(false);
    Tool tool;
    for (std::string line; std::getline(std::cin, line);) {
        const auto row = read_json(line);
        const Value answer = row ? tool.answer(row.value()) : failed(row.failure());
        std::cout << to_json(answer) << '\n' << std::flush;
    }
}
