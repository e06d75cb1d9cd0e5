#include "ringshard/text/chat_template.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "ringshard/base/files.hpp"
#include "ringshard/base/utf8.hpp"
#include "ringshard/text/assistant_spans.hpp"
#include "unpacked.hpp"

using namespace ringshard;
using namespace ringshard::text;

namespace {

const std::filesystem::path folder = CHAT_DATA;

std::string content_of(const std::filesystem::path& file) { return read_file(file).value(); }

std::vector<Value> rows_of(const std::filesystem::path& file) {
    std::istringstream in(test::unpacked(file));
    std::vector<Value> rows;
    for (std::string line; std::getline(in, line);) rows.push_back(read_json(line).value());
    return rows;
}

std::tm time_of(int year, int month, int day, int hour, int minute, int second) {
    std::tm time{};
    time.tm_year = year - 1900;
    time.tm_mon = month - 1;
    time.tm_mday = day;
    time.tm_hour = hour;
    time.tm_min = minute;
    time.tm_sec = second;
    timegm(&time);
    return time;
}

// "2024-03-05 07:08:09" or with a T.
std::tm time_of(const std::string& text) {
    std::array<int, 6> parts{2024, 1, 1};
    size_t part = 0;
    for (size_t at = 0; at < text.size() && part < parts.size();) {
        size_t size = 0;
        parts[part++] = std::stoi(text.substr(at), &size);
        at += size + 1;
    }
    return time_of(parts[0], parts[1], parts[2], parts[3], parts[4], parts[5]);
}

std::string_view continued_field(const Value& row) {
    const Value* field = row.find("continue_final_message");
    if (field == nullptr) return {};
    if (field->string() != nullptr) return *field->string();
    return field->truth() != nullptr && *field->truth() ? "content" : "";
}

Expected<Rendered> render(const ChatTemplate& chat_template, const Value& row,
                          const Value::Object& variables) {
    Conversation conversation;
    conversation.messages = *row.find("messages")->list();
    conversation.tools = row.find("tools");
    conversation.variables = &variables;
    conversation.add_generation_prompt = *row.find("add_generation_prompt")->truth();
    conversation.continued_field = continued_field(row);
    return chat_template.render(conversation);
}

Value::Object with_kwargs(Value::Object tokens, const Value& row) {
    for (const auto& member : *row.find("kwargs")->object()) tokens.push_back(member);
    return tokens;
}

std::string quick(const std::string& source,
                  const std::string& messages = R"([{"role": "user"}])") {
    const auto parsed = ChatTemplate::parse(source, "t");
    if (!parsed) return parsed.failure().message;
    const Value list = read_json(messages).value();
    Conversation conversation;
    conversation.messages = *list.list();
    const auto rendered = parsed.value().render(conversation);
    return rendered ? rendered.value().text : rendered.failure().message;
}

size_t byte_of(std::string_view text, int64_t code_point) {
    size_t at = 0;
    for (; at < text.size() && code_point > 0; --code_point) {
        ++at;
        while (at < text.size() && is_continuation(text[at])) ++at;
    }
    return at + static_cast<size_t>(code_point);
}

void check_spans(const Value& row, const Rendered& rendered) {
    const Value* spans = row.find("assistant_spans");
    if (spans == nullptr || spans->is_null()) return;
    BOOST_REQUIRE(spans->list()->size() == rendered.assistant.size());
    for (size_t i = 0; i < rendered.assistant.size(); ++i) {
        const auto& span = *(*spans->list())[i].list();
        BOOST_TEST(rendered.assistant[i].begin == byte_of(rendered.text, *span[0].integer()));
        BOOST_TEST(rendered.assistant[i].end == byte_of(rendered.text, *span[1].integer()));
    }
}

void check_row(const Expected<ChatTemplate>& chat_template, const Value& row,
               const Value::Object& variables, const char* text_name) {
    const Value* text = row.find(text_name);
    if (!chat_template) {
        BOOST_TEST(text == nullptr);
        return;
    }
    const auto rendered = render(chat_template.value(), row, variables);
    if (text == nullptr) {
        BOOST_TEST(!rendered, *row.find("error")->string());
        const bool is_raised = *row.find("error_type")->string() == "TemplateError";
        if (!rendered && is_raised)
            BOOST_TEST(rendered.failure().message.ends_with(*row.find("error")->string()));
        return;
    }
    if (!rendered) {
        BOOST_ERROR(rendered.failure().message);
        return;
    }
    BOOST_TEST(rendered.value().text == *text->string());
    check_spans(row, rendered.value());
}

}  // namespace

BOOST_AUTO_TEST_CASE(templates_render_as_with_transformers) {
    const Value::Object tokens{{"eos_token", Value(std::string("<|im_end|>"))},
                               {"pad_token", Value(std::string("<|endoftext|>"))}};
    for (const char* name : {"chatml", "qwen3ish", "llama3ish", "mistralish", "gemmaish", "macros",
                             "generation", "generation_blocks", "small"}) {
        const auto rows = rows_of(folder / format_text("{}.jsonl", name));
        BOOST_TEST(rows.size() >= 60U);
        for (size_t i = 0; i < rows.size(); ++i) BOOST_TEST_CONTEXT(name << ".jsonl:" << i + 1) {
                const Value* own = rows[i].find("template");
                auto parsed = ChatTemplate::parse(
                    own != nullptr ? *own->string()
                                   : content_of(folder / format_text("{}.jinja", name)),
                    name);
                if (parsed) parsed.value().set_clock([] { return time_of(2024, 3, 5, 7, 8, 9); });
                check_row(parsed, rows[i], with_kwargs(tokens, rows[i]), "rendered");
            }
    }
}

BOOST_AUTO_TEST_CASE(the_older_renderings_are_met_too) {
    const Value tokens = read_json(content_of(folder / "apply/special_tokens.json")).value();
    for (const char* name : {"chatml", "chatml_generation", "thinking", "headers",
                             "headers_generation", "inst", "features"}) {
        const auto rows = rows_of(folder / "apply" / format_text("{}.jsonl", name));
        BOOST_TEST(rows.size() >= 40U);
        for (size_t i = 0; i < rows.size(); ++i)
            BOOST_TEST_CONTEXT("apply/" << name << ".jsonl:" << i + 1) {
                const std::filesystem::path file = *rows[i].find("template")->string();
                auto parsed = ChatTemplate::parse(
                    content_of(folder / "apply/templates" / file.filename()), name);
                const Value* now = rows[i].find("now");
                if (parsed && now != nullptr && now->string() != nullptr)
                    parsed.value().set_clock([text = *now->string()] { return time_of(text); });
                const Value& own = *tokens.find(*rows[i].find("tokenizer")->string());
                check_row(parsed, rows[i], with_kwargs(*own.object(), rows[i]), "text");
            }
    }
}

BOOST_AUTO_TEST_CASE(a_character_of_markup_is_markup) {
    BOOST_TEST(quick("{% set m = '<a' | e %}{{ [m[0], m[-1], m | last, m | first, 'a'[0]] }}") ==
               "[Markup('&'), Markup('a'), Markup('a'), '&', 'a']");
}

BOOST_AUTO_TEST_CASE(failures_name_the_line_and_what_is_wrong) {
    const auto told = [](const std::string& source, std::string_view part) {
        const std::string message = quick(source);
        BOOST_TEST(message.find(part) != std::string::npos, message);
    };
    told("a\n{% if x %}\nb", "{% endif %} is missing");
    told("\n\n{{ x | nosuch }}", "t, line 3: there is no filter 'nosuch'");
    told("\n{{ x is nosuch }}", "t, line 2: there is no test 'nosuch'");
    told("{% include 'x' %}", "{% include %} is not supported");
    told("{% extends 'x' %}", "{% extends %} is not supported");
    told("{% import 'x' as y %}", "{% import %} is not supported");
    told("\n{{ messages.append(1) }}", "line 2: 'append' is not for templates");
    told("{{ raise_exception('roles must alternate') }}", "t, line 1: roles must alternate");
    told("{{ 9223372036854775807 + 1 }}", "does not fit into 64 bits");
    told("{{ x.y }}", "'x' is not defined");
    told("{% set m = messages[0] %}{% set m.role = 1 %}", "only namespaces can be changed");
    told("{{ (messages | map('upper')) | length }}", "put '| list' before");
}

BOOST_AUTO_TEST_CASE(hostile_templates_end_with_a_failure) {
    const auto ends = [](const std::string& source, std::string_view part) {
        TemplateLimits limits;
        limits.steps = 2'000'000;
        limits.output_bytes = 1 << 20;
        limits.held_bytes = 16 << 20;
        const auto parsed = ChatTemplate::parse(source, "t", limits);
        const Value list = read_json(R"([{"role": "user"}])").value();
        Conversation conversation;
        conversation.messages = *list.list();
        const std::string message = !parsed ? parsed.failure().message : [&] {
            const auto rendered = parsed.value().render(conversation);
            return rendered ? "no failure" : rendered.failure().message;
        }();
        BOOST_TEST(message.find(part) != std::string::npos, message);
    };
    const std::string loop = "{% for i in range(100000) %}";
    ends(loop + loop + "{% endfor %}{% endfor %}", "steps");
    ends(loop + "{{ 'x' * 1000 }}{% endfor %}", "puts out more than");
    ends("{{ 'x' * 10 ** 12 }}", "would make a value");
    ends("{% set s = 'x' * 500000 %}" + loop + "{% set t = s ~ s %}{% endfor %}",
         "makes more than");
    ends(
        "{% set s = 'x' * 900000 %}{% macro f(n) %}{{ s }}{{ f(n - 1) if n > 0 }}{% endmacro %}"
        "{{ f(100) }}",
        "puts out more than");
    ends(
        [] {
            std::string text = "{% set s = 'x' * 900000 %}{{ ''";
            for (int i = 0; i < 1000; ++i) text += " ~ s";
            return text + " }}";
        }(),
        "puts out more than");
    ends("{% set n = namespace(x='x') %}" + loop + "{% set n.x = n.x + n.x %}{% endfor %}",
         "holds more");
    ends("{% set n = namespace(x=[]) %}" + loop + "{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
         "nested");
    ends("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "without end");
    ends("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "without end");
    ends("{{ " + std::string(100'000, '(') + "1" + std::string(100'000, ')') + " }}", "nested");
    ends("{{ " + std::string(100'000, '-') + "1 }}", "nested");
    ends(
        std::string(3, ' ') +
            [] {
                std::string text;
                for (int i = 0; i < 50'000; ++i) text += "{% if 1 %}";
                return text;
            }(),
        "nested");
    ends(
        [] {
            std::string text = "{{ 1";
            for (int i = 0; i < 50'000; ++i) text += " + 1";
            return text + " }}";
        }(),
        "in a row");
    ends("{% set n = namespace() %}{% set n.self = n %}{{ n }}", "nested");
    ends(std::string(2 << 20, 'x'), "longer than");
}

BOOST_AUTO_TEST_CASE(one_template_serves_renderings_of_many_conversations) {
    const auto parsed = ChatTemplate::parse(
                            "{% set n = namespace(i=0) %}{% for m in messages %}"
                            "{% set n.i = n.i + 1 %}{{ n.i }}{% endfor %}",
                            "t")
                            .value();
    for (size_t size = 1; size < 4; ++size) {
        const Value::List messages(size, Value(Value::Object{}));
        Conversation conversation;
        conversation.messages = messages;
        BOOST_TEST(parsed.render(conversation).value().text == std::string("1234").substr(0, size));
    }
    BOOST_TEST(parsed.uses("messages"));
    BOOST_TEST(!parsed.uses("bos_token"));
    BOOST_TEST(!parsed.marks_assistant());
}

namespace {

const std::string chatml =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% "
    "endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
const std::string talk =
    R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "ü"},
    {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}])";

Expected<std::vector<ByteRange>> spans_of(const std::string& source, const std::string& messages) {
    const auto parsed = ChatTemplate::parse(source, "t").value();
    const Value list = read_json(messages).value();
    Conversation conversation;
    conversation.messages = *list.list();
    return find_assistant_spans(parsed, conversation);
}

}  // namespace

BOOST_AUTO_TEST_CASE(assistant_spans_are_found_by_rendering_prefixes) {
    const auto spans = spans_of(chatml, talk).value();
    const std::string text = quick(chatml, talk);
    BOOST_REQUIRE(spans.size() == 2U);
    BOOST_TEST(text.substr(spans[0].begin, spans[0].end - spans[0].begin) == "ü<|im_end|>\n");
    BOOST_TEST(text.substr(spans[1].begin, spans[1].end - spans[1].begin) == "d<|im_end|>\n");
}

BOOST_AUTO_TEST_CASE(assistant_spans_are_never_guessed) {
    const auto refused = [](const std::string& source, const std::string& messages,
                            std::string_view part) {
        const auto spans = spans_of(source, messages);
        BOOST_REQUIRE(!spans);
        BOOST_TEST(spans.failure().message.find(part) != std::string::npos,
                   spans.failure().message);
    };
    refused("{{ messages | length }}" + chatml, talk, "message 1 cannot be found");
    refused("{% for m in messages %}{{ m.content }}{% if loop.last %}!{% endif %}{% endfor %}",
            talk, "differently when other messages follow");
    refused(chatml + "{{ 'think' if add_generation_prompt }}", talk, "generation prompt is not");
    refused(chatml, R"([{"role": "assistant", "content": "a"}])", "no message before");
    refused(
        "{% if messages[-1].role != 'assistant' %}{{ raise_exception('no') }}{% endif %}" + chatml,
        talk, "cannot be rendered alone");
}
