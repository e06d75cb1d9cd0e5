#include "ringshard/text/chat_template.hpp"

#include <algorithm>

#include "conversation.hpp"
#include "ringshard/base/utf8.hpp"
#include "unicode/python_characters.hpp"

namespace ringshard::text {

namespace {

using namespace jinja;

Failure failure_of(const TemplateError& error, const std::string& name, int line) {
    const int where = error.line > 0 ? error.line : line;
    const std::string place = where > 0 ? format_text(", line {}", where) : "";
    return {ExitCode::bad_data, format_text("{}{}: {}", name, place, error.message)};
}

std::tm local_time() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    localtime_r(&now, &parts);
    return parts;
}

void set_variables(Run& run, const ChatTemplate& chat_template, const Conversation& conversation) {
    static constexpr std::array<std::string_view, 4> own{"messages", "tools", "documents",
                                                         "add_generation_prompt"};
    if (conversation.variables != nullptr)
        for (const auto& [name, value] : *conversation.variables) {
            if (std::ranges::find(own, name) != own.end())
                fail("'{}' cannot be among the variables: the conversation has its own", name);
            if (chat_template.uses(name)) run.set_outside(name, from_value(run, value));
        }
    run.set_outside("tools", list_of_objects(run, conversation.tools, "tools"));
    run.set_outside("documents", list_of_objects(run, conversation.documents, "documents"));
    run.set_outside("add_generation_prompt", Datum(conversation.add_generation_prompt));
}

// Converts code points to bytes. If the output holds the block unchanged, its bytes are known; if a
// macro or a set block came between, counts the block's code points in the text at that position.
ByteRange span_of(const Generated& block, std::string_view text) {
    const std::string_view rest = text.substr(std::min(block.begin, text.size()));
    const std::string_view same = rest.substr(0, block.bytes);
    const bool fits = same.size() == block.bytes && count_code_points(same) == block.code_points &&
                      (same.size() == rest.size() || !is_continuation(rest[same.size()]));
    if (fits) return {block.begin, block.begin + block.bytes};
    const size_t there = std::min(count_code_points(rest), block.code_points);
    return {block.begin,
            block.begin + byte_of_code_point(rest, there) + (block.code_points - there)};
}

size_t bytes_of(const Value& value) {
    size_t bytes = 0;
    if (const auto* text = value.string()) bytes += text->size();
    if (const auto* list = value.list())
        for (const Value& item : *list) bytes += bytes_of(item);
    if (const auto* object = value.object())
        for (const auto& [name, member] : *object) bytes += name.size() + bytes_of(member);
    return bytes;
}

RunLimits limits_for(const TemplateLimits& limits, const Conversation& conversation) {
    constexpr size_t copies = 8;
    size_t bytes = 0;
    for (const Value& message : conversation.messages) bytes += bytes_of(message);
    for (const Value* value : {conversation.tools, conversation.documents})
        if (value != nullptr) bytes += bytes_of(*value);
    return {limits.steps, limits.output_bytes + copies * bytes, limits.held_bytes + copies * bytes};
}

Rendered render_with(Run& run, const ChatTemplate& chat_template,
                     const Conversation& conversation) {
    const bool continues = !conversation.continued_field.empty();
    if (continues && conversation.add_generation_prompt)
        fail("the last message cannot be continued with a generation prompt after it");
    std::string continued_text;
    run.set_outside("messages",
                    prepare_messages(run, conversation, chat_template.source(), continued_text));
    set_variables(run, chat_template, conversation);
    Rendered rendered{run.render(), {}};
    if (continues) {
        cut_at_mark(rendered.text, continued_text);
    } else {
        for (const Generated& block : run.generated())
            rendered.assistant.push_back(span_of(block, rendered.text));
    }
    return rendered;
}

}  // namespace

Expected<ChatTemplate> ChatTemplate::parse(std::string source, std::string name,
                                           const TemplateLimits& limits) {
    if (source.size() > limits.source_bytes)
        return Failure{ExitCode::bad_data,
                       format_text("{}: the template is longer than {}", name,
                                   human_bytes(static_cast<double>(limits.source_bytes)))};
    if (!is_utf8(source))
        return Failure{ExitCode::bad_data, format_text("{}: the template is not UTF-8", name)};
    ChatTemplate made;
    made.source_ = std::move(source);
    made.name_ = std::move(name);
    made.limits_ = limits;
    try {
        made.program_ = std::make_shared<const Program>(compile(made.source_));
    } catch (const TemplateError& error) {
        return failure_of(error, made.name_, 0);
    }
    return made;
}

Expected<Rendered> ChatTemplate::render(const Conversation& conversation) const {
    Run run(*program_, limits_for(limits_, conversation));
    run.clock = clock_ ? clock_ : local_time;
    try {
        return render_with(run, *this, conversation);
    } catch (const TemplateError& error) {
        return failure_of(error, name_, run.line);
    }
}

Expected<std::string> ChatTemplate::render(const Value::Object& variables) const {
    Run run(*program_, {limits_.steps, limits_.output_bytes, limits_.held_bytes});
    run.clock = clock_ ? clock_ : local_time;
    run.is_strict = true;
    try {
        for (const auto& [name, value] : variables)
            if (uses(name)) run.set_outside(name, from_value(run, value));
        return run.render();
    } catch (const TemplateError& error) {
        return failure_of(error, name_, run.line);
    }
}

const std::vector<std::string>& ChatTemplate::outside_names() const {
    return program_->outside_names;
}

bool ChatTemplate::marks_assistant() const { return program_->marks_assistant; }

bool ChatTemplate::uses(std::string_view variable) const {
    return std::ranges::find(program_->outside_names, variable) != program_->outside_names.end();
}

}  // namespace ringshard::text
