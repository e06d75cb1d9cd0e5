#include "tekken_template.hpp"

#include <array>
#include <utility>

#include "ringshard/base/text.hpp"

namespace ringshard::text {

namespace {

// Versions 3 to 13 differ in the place of the system prompt (up to 3: in the last user message), in
// the message that has the tools (from 13 on: the first user message), in the form of tool calls
// and results, and in thinking (from 13 on).
constexpr std::string_view body = R"jinja(
{%- macro text_of(content, may_think) -%}
    {%- if content is string -%}
        {{- content -}}
    {%- elif content is iterable -%}
        {%- for part in content -%}
            {%- if part.type == 'text' -%}
                {%- if not loop.first and loop.previtem.type == 'text' -%}{{- '\n\n' -}}{%- endif -%}
                {{- part.text -}}
            {%- elif part.type == 'thinking' and may_think -%}
                {{- '[THINK]' ~ part.thinking -}}
                {%- if part.closed is not defined or part.closed -%}{{- '[/THINK]' -}}{%- endif -%}
            {%- else -%}
                {{- raise_exception('a part of type ' ~ part.type ~ ' cannot be here') -}}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- macro json_of(text) -%}
    {%- if text is not string -%}
        {{- text | tojson -}}
    {%- elif text == '' -%}
        {{- '{}' -}}
    {%- elif (text[0] == '{' and text[-1] == '}') or (text[0] == '[' and text[-1] == ']')
          or text in ['true', 'false', 'null'] or text | int | string == text
          or text | float | string == text -%}
        {{- text -}}
    {%- else -%}
        {{- text | tojson -}}
    {%- endif -%}
{%- endmacro -%}
{%- macro listed_tools() -%}
    {{- '[AVAILABLE_TOOLS][' -}}
    {%- for tool in tools -%}
        {{- '{"type": "function", "function": {"name": ' ~ (tool.function.name | tojson) -}}
        {{- ', "description": ' ~ (tool.function.description | default('') | tojson) -}}
        {{- ', "parameters": ' ~ (tool.function.parameters | tojson) ~ '}}' -}}
        {%- if not loop.last -%}{{- ', ' -}}{%- endif -%}
    {%- endfor -%}
    {{- '][/AVAILABLE_TOOLS]' -}}
{%- endmacro -%}
{%- macro calls_of(calls) -%}
    {%- if version == 3 or version == 7 -%}{{- '[TOOL_CALLS][' -}}{%- endif -%}
    {%- for call in calls -%}
        {%- set has_id = call.id is defined and call.id is string -%}
        {%- if version < 13 and not (has_id and call.id | length == 9) -%}
            {{- raise_exception('a tool call needs an id of 9 letters and digits') -}}
        {%- endif -%}
        {%- set arguments = call.function.arguments -%}
        {%- if arguments is not string -%}
            {%- set arguments = arguments | tojson -%}
        {%- elif arguments == '' -%}
            {%- set arguments = '{}' -%}
        {%- endif -%}
        {%- if version == 3 or version == 7 -%}
            {{- '{"name": ' ~ (call.function.name | tojson) ~ ', "arguments": ' ~ arguments -}}
            {{- ', "id": ' ~ (call.id | tojson) ~ '}' -}}
            {%- if not loop.last -%}{{- ', ' -}}{%- endif -%}
        {%- elif version == 11 -%}
            {{- '[TOOL_CALLS]' ~ call.function.name ~ '[CALL_ID]' ~ call.id ~ '[ARGS]' -}}
            {{- arguments -}}
        {%- else -%}
            {{- '[TOOL_CALLS]' ~ call.function.name ~ '[ARGS]' ~ arguments -}}
        {%- endif -%}
    {%- endfor -%}
    {%- if version == 3 or version == 7 -%}{{- ']' -}}{%- endif -%}
{%- endmacro -%}
{{- bos_token -}}
{%- set all = namespace(system='', turns=messages, tool_turn=-1) -%}
{%- if version == 3 -%}
    {%- set all.turns = messages | rejectattr('role', 'equalto', 'system') | list -%}
    {%- for message in messages | selectattr('role', 'equalto', 'system') -%}
        {%- set all.system = all.system ~ text_of(message.content, false) ~ '\n\n' -%}
    {%- endfor -%}
{%- endif -%}
{%- for message in all.turns -%}
    {%- if message.role == 'user' and (version < 13 or all.tool_turn < 0) -%}
        {%- set all.tool_turn = loop.index0 -%}
    {%- endif -%}
    {%- if not loop.first and message.role in ['user', 'assistant']
          and message.role == loop.previtem.role -%}
        {{- raise_exception('two messages of the role ' ~ message.role ~ ' follow each other') -}}
    {%- endif -%}
{%- endfor -%}
{%- for message in all.turns -%}
    {%- if message.role == 'user' -%}
        {%- if loop.index0 == all.tool_turn and tools -%}{{- listed_tools() -}}{%- endif -%}
        {{- '[INST]' -}}
        {%- if loop.index0 == all.tool_turn -%}{{- all.system -}}{%- endif -%}
        {{- text_of(message.content, false) ~ '[/INST]' -}}
    {%- elif message.role == 'assistant' -%}
        {%- if not message.content and not message.tool_calls -%}
            {{- raise_exception('an assistant message has neither content nor tool calls') -}}
        {%- elif version == 3 and message.content and message.tool_calls -%}
            {{- raise_exception('an assistant message has content and tool calls') -}}
        {%- endif -%}
        {%- generation -%}
        {%- if message.content is string -%}
            {{- message.content.rstrip(' ') -}}
        {%- else -%}
            {{- text_of(message.content, version >= 13) -}}
        {%- endif -%}
        {%- if message.tool_calls -%}{{- calls_of(message.tool_calls) -}}{%- endif -%}
        {{- eos_token -}}
        {%- endgeneration -%}
    {%- elif message.role == 'tool' -%}
        {%- if version < 13 and not message.tool_call_id -%}
            {{- raise_exception('a message of the role tool needs a tool_call_id') -}}
        {%- endif -%}
        {{- '[TOOL_RESULTS]' -}}
        {%- if version == 3 -%}
            {{- '{"content": ' ~ json_of(message.content) -}}
            {{- ', "call_id": ' ~ (message.tool_call_id | tojson) ~ '}' -}}
        {%- elif version < 13 -%}
            {{- message.tool_call_id ~ '[TOOL_CONTENT]' ~ text_of(message.content, false) -}}
        {%- else -%}
            {{- text_of(message.content, false) -}}
        {%- endif -%}
        {{- '[/TOOL_RESULTS]' -}}
    {%- elif message.role == 'system' -%}
        {{- '[SYSTEM_PROMPT]' ~ text_of(message.content, version >= 13) ~ '[/SYSTEM_PROMPT]' -}}
    {%- else -%}
        {{- raise_exception('the role ' ~ message.role ~ ' has no form in this template') -}}
    {%- endif -%}
{%- endfor -%}
)jinja";

}  // namespace

std::optional<std::string> tekken_chat_template(std::string_view version) {
    static constexpr std::array<std::pair<std::string_view, int>, 4> known{
        {{"v3", 3}, {"v7", 7}, {"v11", 11}, {"v13", 13}}};
    for (const auto& [name, number] : known)
        if (name == version) return format_text("{{%- set version = {} -%}}", number).append(body);
    return std::nullopt;
}

}  // namespace ringshard::text
