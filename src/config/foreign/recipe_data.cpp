#include "recipe_data.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

std::string jinja_of_format(const std::string& format,
                            const std::map<std::string, std::string>& columns) {
    std::string jinja;
    for (size_t at = 0; at < format.size();) {
        const size_t end = format[at] == '{' ? format.find('}', at) : std::string::npos;
        if (end == std::string::npos) {
            jinja += format[at++];
            continue;
        }
        const std::string name = format.substr(at + 1, end - at - 1);
        const auto column = columns.find(name);
        jinja += "{{ " + (column == columns.end() ? name : column->second) + " }}";
        at = end + 1;
    }
    return jinja;
}

ordered_json segments_of(const std::string& prompt, const std::string& answer, bool learns_prompt) {
    return {{"segments",
             {{{"text", prompt}, {"label", learns_prompt}, {"special_tokens", true}},
              {{"text", answer + "{{ eos_token }}"}, {"label", true}}}}};
}

ordered_json alpaca_segments(bool learns_prompt) {
    const std::string has_input = "input is defined and input";
    return segments_of(
        "Below is an instruction that describes a task{% if " + has_input +
            " %}, paired with an input that provides further context{% endif %}. Write a response "
            "that appropriately completes the request.\n\n### Instruction:\n{{ instruction }}\n\n"
            "{% if " +
            has_input + " %}### Input:\n{{ input }}\n\n{% endif %}### Response:\n",
        "{{ output }}", learns_prompt);
}

std::string answer_of(const std::string& content) {
    return "{\"role\": \"assistant\", \"content\": {{ " + content + " | tojson }}}";
}

std::string pair_template(const std::string& turns, const std::string& chosen,
                          const std::string& rejected) {
    return "{\"prompt\": [" + turns + "], \"chosen\": [" + answer_of(chosen) +
           "], \"rejected\": [" + answer_of(rejected) + "]}";
}

std::string judged_template(const std::string& turns, const std::string& answer,
                            const std::string& label) {
    return "{\"prompt\": [" + turns + "], \"completion\": [" + answer_of(answer) +
           "], \"label\": {{ " + label + " | tojson }}}";
}

std::string turns_of(const std::string& column, const std::string& role_key,
                     const std::string& content_key, const ordered_json& roles) {
    ordered_json ours = ordered_json::object();
    for (const auto& [name, theirs] : roles.items())
        for (const ordered_json& role : theirs) ours[role.get<std::string>()] = name;
    return "{% set roles = " + ours.dump() + " %}{% for turn in " + column +
           " %}{\"role\": {{ roles[turn['" + role_key + "']] | tojson }}, \"content\": {{ turn['" +
           content_key + "'] | tojson }}}{% if not loop.last %},{% endif %}{% endfor %}";
}

std::string text_of_message(const std::string& column, const std::string& content_key) {
    return "(" + column + " if " + column + " is string else " + column + "['" + content_key +
           "'])";
}

const char* chatml_template() {
    return "{% for message in messages %}"
           "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
           "'\\n' "
           "}}{% endfor %}"
           "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
}

}  // namespace ringshard::config
