// Rows that templates make of columns.
#include "row_template.hpp"

#include <boost/test/unit_test.hpp>

#include "ringshard/data/row_mapping.hpp"

using namespace ringshard;
using namespace ringshard::data;
using text::Value;

namespace {

Value json(const std::string& text) {
    auto value = text::read_json(text);
    BOOST_TEST_REQUIRE(static_cast<bool>(value), text);
    return std::move(value).value();
}

Value::Object members(const std::string& text) { return *json(text).object(); }

// The row as JSON, or what is wrong.
std::string made(const std::string& source, const std::string& row,
                 const std::string& variables = "{}") {
    const auto parsed = RowTemplate::parse(source, members(variables));
    if (!parsed) return parsed.failure().message;
    const auto applied = parsed.value().apply(json(row));
    return applied ? to_json(applied.value()) : applied.failure().message;
}

}  // namespace

BOOST_AUTO_TEST_CASE(texts_become_columns) {
    BOOST_TEST(made(R"({"prompt": "{{ctx}}", "completion": " {{endings[label|int]}}"})",
                    R"({"ctx": "A dog", "endings": ["runs.", "sings."], "label": "1"})") ==
               R"({"prompt": "A dog", "completion": " sings."})");
    // The line break at the end stays, and a text without marks is taken as it is.
    BOOST_TEST(made("{\"prompt\": \"Q: {{q}}\\n\", \"weight\": 2, \"completion\": \"x\"}",
                    R"({"q": 1})") == R"({"prompt": "Q: 1\n", "weight": 2, "completion": "x"})");
    // A list stays a list where the text is its name alone.
    BOOST_TEST(made(R"({"messages": "{{ talk }}"})",
                    R"({"talk": [{"role": "user", "content": "{{x}}"}]})") ==
               R"({"messages": [{"role": "user", "content": "{{x}}"}]})");
}

BOOST_AUTO_TEST_CASE(messages_that_a_row_may_lack) {
    const std::string source =
        R"({"messages": [{"role": "system", "content": "{{system}}", "if": "{{system | default('')}}"},
                         {"role": "user", "content": "{{q}}"}]})";
    BOOST_TEST(
        made(source, R"({"q": "a", "system": "s"})") ==
        R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]})");
    BOOST_TEST(made(source, R"({"q": "a"})") ==
               R"({"messages": [{"role": "user", "content": "a"}]})");
}

BOOST_AUTO_TEST_CASE(names_that_a_template_asks_for) {
    const auto text = [](const std::string& source) {
        return made(R"({"text": ")" + source + R"("})", R"({"q": 1, "whose": 1, "awho": 1})");
    };
    for (const char* const source :
         {"{{ 1 if who is defined else 0 }}", "{{ 1 if who is  not  defined else 0 }}",
          "{{ 1 if who is undefined else 0 }}", "{{ who|d('x') }}", "{{ who | default('x') }}",
          "{%- set who = 'x' %}{{who}}", "{% set who='x' -%}{{ who }}"})
        BOOST_TEST(text(source).starts_with(R"({"text": )"), source);
    for (const char* const source :
         {"{{ whose is defined }}{{who}}", "{{ who | dictsort }}", "{% if who == 1 %}{% endif %}",
          "{{ awho is defined }}{{ who }}"})
        BOOST_TEST(text(source).starts_with("row_template.text needs who"), source);
    BOOST_TEST(made(R"({"m": " {{- talk -}} "})", R"({"talk": [1]})") == R"({"m": [1]})");
    BOOST_TEST(made(R"({"m": "{{ talk[0] }}"})", R"({"talk": [1]})") == R"({"m": "1"})");
}

BOOST_AUTO_TEST_CASE(a_template_of_the_whole_row) {
    BOOST_TEST(
        made(
            R"({"messages": [{% for t in turns %}{{ t | tojson }}{{ '' if loop.last else ',' }})"
            R"({% endfor %}]})",
            R"({"turns": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})") ==
        R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
    BOOST_TEST(made("{{ q }}", R"({"q": "no object"})").starts_with("row_template has to render"));
    BOOST_TEST(made(R"({"text": {{ tools_from_json[0].name | tojson }}})",
                    R"({"tools": "[{\"name\": \"f\"}]"})") == R"({"text": "f"})");
    BOOST_TEST(made(R"({"text": {{ tools_from_json }}})", R"({"tools": "["})")
                   .starts_with("tools_from_json: column tools is no JSON"));
}

BOOST_AUTO_TEST_CASE(names_and_variables) {
    const auto parsed = RowTemplate::parse(
        R"({"prompt": "{{a}}{{b_names[b]}}", "completion": "{% for c in range(2) %}{{c}}{% endfor %}"})",
        {});
    BOOST_TEST(parsed.value().names() == (std::vector<std::string>{"a", "b_names", "b"}));
    BOOST_TEST(made(R"({"text": "{{who}} {{q}}"})", R"({"q": 1})", R"({"who": "Ann", "q": 2})") ==
               R"({"text": "Ann 1"})");  // a column comes first
    BOOST_TEST(made(R"({"text": "{{who}}"})", R"({"q": 1})") ==
               "row_template.text needs who, which is no column of this row and no name in "
               "template_variables; {{ who | default('') }} gives it a default");
    BOOST_TEST(made(R"({"text": "a\n{{ q.x.y }}"})", R"({"q": {"z": 1}})")
                   .starts_with("row_template.text, line 2: "));
    BOOST_TEST(made(R"({"text": "{% if %}"})", "{}").starts_with("row_template.text, line 1: "));
}

BOOST_AUTO_TEST_CASE(placeholders_in_the_data) {
    const auto filled = [](const std::string& row) {
        Value value = json(row);
        const auto failure = fill_placeholders(value, members(R"({"NAME": "Ann", "YEAR": 1999})"));
        return failure ? failure->message : to_json(value);
    };
    BOOST_TEST(filled(R"({"messages": [{"content": "I am {{NAME}}, {{ YEAR }}; {{x}}."}]})") ==
               R"({"messages": [{"content": "I am Ann, 1999; {{x}}."}]})");
    BOOST_TEST(filled(R"({"text": "by {{AUTHOR}}"})") ==
               "holds {{AUTHOR}}, and template_variables has no AUTHOR");
}

BOOST_AUTO_TEST_CASE(a_template_after_the_map_of_columns) {
    RowMapping mapping{.column_map = {{"prompt", "Question"}}};
    mapping.row_template = std::make_shared<const RowTemplate>(
        RowTemplate::parse(R"({"prompt": "Q: {{prompt}}", "completion": "{{a}}"})", {}).value());
    const auto row = map_row(json(R"({"Question": "why", "a": "so"})"), mapping);
    BOOST_TEST(to_json(row.value()) == R"({"prompt": "Q: why", "completion": "so"})");
    BOOST_TEST(mapping.template_columns() == (std::vector<std::string>{"Question", "a"}));
}
