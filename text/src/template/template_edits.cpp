#include "template_edits.hpp"

#include <array>

namespace ringshard::text {

namespace {

// Puts out `said`, which preceding edits set: learned, if it is the assistant's.
constexpr std::string_view say =
    "{% if message['role'] == 'assistant' %}{% generation %}{{ said }}{% endgeneration %}"
    "{% else %}{{ said }}{% endif %}";

constexpr std::array cohere{
    TemplateEdit{R"(<|CHATBOT_TOKEN|>'  + )", R"(<|CHATBOT_TOKEN|>' }}{% generation %}{{ )"},
    TemplateEdit{R"( }})", R"(@{% endgeneration %})"},
};

constexpr std::array cohere2{
    TemplateEdit{R"(<|CHATBOT_TOKEN|><|START_RESPONSE|>)", R"(@{% generation %})"},
    TemplateEdit{R"(<|END_RESPONSE|>)", R"(@<|END_OF_TURN_TOKEN|>{% endgeneration %})"},
    TemplateEdit{
        R"(<|END_OF_TURN_TOKEN|>{% endfor %})",
        R"({% if role == 'user' or role == 'system' %}<|END_OF_TURN_TOKEN|>{% endif %}{% endfor %})"},
};

// Keeps the reasoning of answers, which the model's template cuts off.
constexpr std::array deepseek_r1_distill{
    TemplateEdit{R"({%- for tool in message['tool_calls']%})", R"({%- generation %}@)"},
    TemplateEdit{R"(<｜tool▁calls▁end｜>)", R"(@)"},
    TemplateEdit{R"({%- endfor %})", R"(@{%- endgeneration %})"},
    TemplateEdit{R"({{'<｜tool▁outputs▁end｜>')", R"({%- generation %}@)"},
    TemplateEdit{R"('<｜end▁of▁sentence｜>'}})", R"(@{%- endgeneration %})"},
    TemplateEdit{R"({% set content = message['content'] %})", R"({%- generation %}@)",
                 R"({{'<｜Assistant｜>')"},
    TemplateEdit{R"('<｜end▁of▁sentence｜>'}})", R"(@{%- endgeneration %})"},
};

// Takes arguments of calls as objects, which the model's template refuses.
constexpr std::array deepseekv3{
    TemplateEdit{R"({%- for tool in message['tool_calls'] %})", R"({%- generation %}@)"},
    TemplateEdit{R"(tool['function']['arguments'])", R"(@ | tojson)"},
    TemplateEdit{R"(tool['function']['arguments'])", R"(@ | tojson)"},
    TemplateEdit{R"(tool['function']['arguments'])", R"(@ | tojson)"},
    TemplateEdit{R"({{'<｜tool▁calls▁end｜><｜end▁of▁sentence｜>'}})", R"(@{%- endgeneration %})"},
    TemplateEdit{R"({{'<｜tool▁outputs▁end｜>')", R"({%- generation %}@)"},
    TemplateEdit{R"('<｜end▁of▁sentence｜>'}})", R"(@{%- endgeneration %})"},
    TemplateEdit{R"({% set content = message['content'] %})", R"({%- generation %}@)"},
    TemplateEdit{R"('<｜end▁of▁sentence｜>'}})", R"(@{%- endgeneration %})"},
};

// Results of tools stay outside.
constexpr std::array diffusion_gemma{
    TemplateEdit{R"({%- if thinking_text and thinking_gate -%})", R"(@{%- generation -%})"},
    TemplateEdit{R"({%- endif -%})", R"({%- endgeneration -%}@)"},
    TemplateEdit{R"({%- for tool_call in message.get('tool_calls') -%})", R"({%- generation -%}@)"},
    TemplateEdit{R"({{- '}<tool_call|>' -}})", R"(@)"},
    TemplateEdit{R"({%- endfor -%})", R"(@{%- endgeneration -%})"},
    TemplateEdit{
        R"({{- captured_content -}})",
        R"({%- if role == 'model' -%}{%- generation -%}@{%- endgeneration -%}{%- else -%}@{%- endif -%})"},
    TemplateEdit{
        R"({{- '<turn|>\n' -}})",
        R"({%- if role == 'model' -%}{%- generation -%}@{%- endgeneration -%}{%- else -%}@{%- endif -%})"},
};

constexpr std::array gemma{
    TemplateEdit{R"( + message['content'])", R"( }}{% set said = message['content'])"},
    TemplateEdit{R"( }})", R"( %})"},
    TemplateEdit{"", say},
};

constexpr std::array gemma3{
    TemplateEdit{R"({%- if message['content'] is string -%})", R"({%- set said -%}@)"},
    TemplateEdit{"{{ '<end_of_turn>\n' }}", R"(@{% endset %})"},
    TemplateEdit{"", say},
};

// An answer ends with the mark of the next message's role, which the next message leaves out.
constexpr std::array glm4moe{
    TemplateEdit{R"({%- if m.role == 'user' -%})", R"(@)"},
    TemplateEdit{R"(<|user|>)",
                 R"({{ '<|user|>' if loop.first or loop.previtem.role != 'assistant' }})"},
    TemplateEdit{R"({%- if loop.index0 > ns.last_user_index and)", R"({%- generation -%}@)"},
    TemplateEdit{
        R"(</tool_call>{% endfor %})",
        R"(@<|observation|>{% else %}{{ '<|system|>' if not loop.last and loop.nextitem.role == 'system' else '<|user|>' -}})"},
    TemplateEdit{R"({% endif %})", R"(@{% endgeneration %})"},
    TemplateEdit{R"({%- if loop.first or (messages[loop.index0 - 1].role != "tool") %})", "",
                 R"({{- '\n<tool_response>\n' }})"},
    TemplateEdit{R"(<|observation|>)",
                 R"({{ '<|observation|>' if loop.first or loop.previtem.role != 'assistant' }})"},
    TemplateEdit{R"(<|system|>)",
                 R"({{ '<|system|>' if loop.first or loop.previtem.role != 'assistant' }})"},
};

constexpr std::array gptoss{
    TemplateEdit{R"({%- if message.role == 'assistant' -%})", R"(@)"},
    TemplateEdit{R"({%- if "tool_calls" in message %})", R"({%- generation %}@)"},
    TemplateEdit{R"({%- elif message.role == 'tool' -%})", R"({%- endgeneration %}@)"},
};

constexpr std::array lfm2{
    TemplateEdit{R"({%- for message in messages -%})", R"(@)"},
    TemplateEdit{R"({{- content + "<|im_end|>\n" -}})",
                 R"({%- set said = content + "<|im_end|>\n" -%})"},
    TemplateEdit{"", say},
};

constexpr std::array lfm2_v2{
    TemplateEdit{R"({%- if content and content != "null" -%})", R"({%- generation -%}@)"},
    TemplateEdit{R"({{- "<|im_end|>\n" -}})", R"(@{%- endgeneration -%})"},
    TemplateEdit{R"({{- content + "<|im_end|>\n" -}})",
                 R"({%- set said = content + "<|im_end|>\n" -%})"},
    TemplateEdit{"", say},
};

constexpr std::array llama3{
    TemplateEdit{R"({% set content =)", R"({% set header =)"},
    TemplateEdit{R"(+ message['content'])", R"( %}{% set said = message['content'])"},
    TemplateEdit{R"({% set content = bos_token + content %})", R"({{ bos_token }})"},
    TemplateEdit{R"({{ content }})", R"({{ header }})"},
    TemplateEdit{"", say},
};

constexpr std::array llava_next{
    TemplateEdit{R"({% elif message['role'] == 'assistant' %})", R"(@{% generation %})"},
    TemplateEdit{R"('</s> '}})", R"('</s>'}}{% endgeneration %}{{ ' ' }})"},
};

constexpr std::array muse_glimmer{
    TemplateEdit{R"({%- elif role == 'assistant' -%})", R"(@{%- generation -%})"},
    TemplateEdit{R"({{- ('<|eot|>' if end_turn else '<|eom|>') -}})", R"(@)"},
    TemplateEdit{R"({%- endif -%})", R"(@{%- endgeneration -%})"},
};

constexpr std::array nemotron3{
    TemplateEdit{R"({%- set include_content =)", R"({%- generation %}@)"},
    TemplateEdit{R"({{- '<|im_end|>\n' }})", R"(@{%- endgeneration %})"},
    TemplateEdit{R"('<|im_start|>assistant\n' ~ )",
                 R"('<|im_start|>assistant\n' }}{% generation %}{{ )"},
    TemplateEdit{R"( }})", R"(@{% endgeneration %})"},
    TemplateEdit{R"('<|im_start|>assistant\n' ~ )",
                 R"('<|im_start|>assistant\n' }}{% generation %}{{ )"},
    TemplateEdit{R"( }})", R"(@{% endgeneration %})"},
    TemplateEdit{
        R"('<|im_start|>assistant\n<|im_end|>\n' }})",
        R"('<|im_start|>assistant\n' }}{% generation %}{{ '<|im_end|>\n' }}{% endgeneration %})"},
};

constexpr std::array phi3{
    TemplateEdit{"{{'<|assistant|>\n' + ", "{{'<|assistant|>\n'}}{% generation %}{{"},
    TemplateEdit{R"(}})", R"(@{% endgeneration %})"},
    TemplateEdit{
        R"({{ eos_token }})",
        R"({% if messages[-1]['role'] == 'assistant' %}{% generation %}@{% endgeneration %}{% else %}@{% endif %})"},
};

constexpr std::array qwen2_5{
    TemplateEdit{R"( or (message.role == "assistant" and not message.tool_calls))", ""},
    TemplateEdit{R"({%- if message.content %})",
                 R"({%- generation %}{%- if message.content or not message.tool_calls %})"},
    TemplateEdit{R"(in message.tool_calls)", R"(@ or [])"},
    TemplateEdit{R"({{- '<|im_end|>\n' }})", R"(@{%- endgeneration %})"},
};

constexpr std::array qwen2_5_vl{
    TemplateEdit{R"({% if message['content'] is string %})", R"({% set said %}@)"},
    TemplateEdit{"{% endfor %}<|im_end|>\n{% endif %}", R"(@{% endset %})"},
    TemplateEdit{"", say},
};

// Renders the reasoning of every answer: with the model's template, those before the last question
// lose it.
constexpr std::array qwen3{
    TemplateEdit{R"({%- if loop.index0 > ns.last_query_index %})", "",
                 R"({{- '<|im_start|>' + message.role + '\n<think>)"},
    TemplateEdit{R"('\n<think>\n')", R"('\n' }}{%- generation %}{{- '<think>\n')"},
    TemplateEdit{R"(}})", R"(@)"},
    TemplateEdit{R"({%- else %})", "", R"({%- if message.tool_calls)"},
    TemplateEdit{R"({{- '<|im_end|>\n' }})", R"(@{%- endgeneration %})"},
};

constexpr std::array qwen3_5{
    TemplateEdit{R"({%- set reasoning_content = reasoning_content|trim %})", R"(@)",
                 R"({{- '<|im_start|>' + message.role + '\n<think>)"},
    TemplateEdit{R"('\n<think>\n')", R"('\n' }}{%- generation %}{{- '<think>\n')"},
    TemplateEdit{R"(}})", R"(@)"},
    TemplateEdit{R"({%- else %})", "", R"({%- if message.tool_calls)"},
    TemplateEdit{R"({{- '<|im_end|>\n' }})", R"(@{%- endgeneration %})"},
};

constexpr std::array qwen3_instruct{
    TemplateEdit{R"('\n' + content }})", R"('\n' }}{%- generation %}{{- content }})"},
    TemplateEdit{R"({{- '<|im_end|>\n' }})", R"(@{%- endgeneration %})"},
};

constexpr std::array qwen3_vl{
    TemplateEdit{R"({%- elif message.role == "assistant" %})", R"(@)"},
    TemplateEdit{R"({%- if message.content is string %})", R"({%- generation %}@)"},
    TemplateEdit{R"({{- '<|im_end|>\n' }})", R"(@{%- endgeneration %})"},
};

// Idefics3 and SmolVLM: the space before the content is part of the answer.
constexpr std::array utterances{
    TemplateEdit{
        R"({% if message['content'][0]['type'] == 'image' %}{{':'}}{% else %}{{': '}}{% endif %})",
        R"({{ ':' }}{% set said %}{{ ' ' if message['content'][0]['type'] != 'image' }})"},
    TemplateEdit{"<end_of_utterance>\n", R"(@{% endset %})"},
    TemplateEdit{"", say},
};

constexpr std::array templates{
    KnownTemplate{"Cohere", 1318, 0x16913247e5fddff9, cohere},
    KnownTemplate{"Cohere 2", 3239, 0xf555a55beeb28eee, cohere2},
    KnownTemplate{"DeepSeek-R1-Distill", 2246, 0x845fdf813c637ee2, deepseek_r1_distill},
    KnownTemplate{"DeepSeek-V3", 2765, 0x4526f885d718fa95, deepseekv3},
    KnownTemplate{"DiffusionGemma", 18575, 0x99f17d41517c751b, diffusion_gemma},
    KnownTemplate{"Gemma", 591, 0x5c10ee65212d93b3, gemma},
    KnownTemplate{"Gemma 3", 1532, 0xc90dea00b85c935d, gemma3},
    KnownTemplate{"GLM-4.5", 3242, 0x5f4dd018f4521bc9, glm4moe},
    KnownTemplate{"GPT-OSS", 16738, 0x5da66262d54a9064, gptoss},
    KnownTemplate{"Idefics3", 408, 0x2750467898fc405a, utterances},
    KnownTemplate{"LFM2", 1379, 0x7faef5d8e49cf520, lfm2},
    KnownTemplate{"LFM2 with tools", 3099, 0x8f22102d7794bb85, lfm2_v2},
    KnownTemplate{"Llama 3", 389, 0x0e60067a5537498e, llama3},
    KnownTemplate{"LLaVA-NeXT", 663, 0xce7749786d3ffecd, llava_next},
    KnownTemplate{"Muse Glimmer", 9992, 0x67bbcd170ca4388e, muse_glimmer},
    KnownTemplate{"Nemotron 3 Nano", 10504, 0x43b445dc85f1b759, nemotron3},
    KnownTemplate{"Nemotron 3 Super", 10771, 0x4fd9cf68c291e866, nemotron3},
    KnownTemplate{"Nemotron 3 Ultra", 10152, 0x30fa1947e9ca3dab, nemotron3},
    KnownTemplate{"Nemotron 3.5 Lightning", 9867, 0xe024b304c346f44d, nemotron3},
    KnownTemplate{"Phi-3", 407, 0xecebdb26677c663d, phi3},
    KnownTemplate{"Phi-3.5", 430, 0xcf278cde387a54c8, phi3},
    KnownTemplate{"Qwen2.5", 2507, 0xc2b27ee60f1b8775, qwen2_5},
    KnownTemplate{"Qwen2.5-VL", 1017, 0x71242f76359e71e8, qwen2_5_vl},
    KnownTemplate{"Qwen3", 4168, 0x959a4551391a6549, qwen3},
    KnownTemplate{"Qwen3-Instruct-2507", 2630, 0x3751fe8ea48448ab, qwen3_instruct},
    KnownTemplate{"Qwen3-VL", 5292, 0xf67afe266c470df1, qwen3_vl},
    KnownTemplate{"Qwen3.5", 7755, 0x407bbcdeb62737b7, qwen3_5},
    KnownTemplate{"Qwen3.5, thinking", 7756, 0xf07c510f47fbaca0, qwen3_5},
    KnownTemplate{"Qwen3.6", 7764, 0x8ae3a8bc6e68f114, qwen3_5},
    KnownTemplate{"Qwen3.8", 8952, 0x8b6b0871c5db260b, qwen3_5},
    KnownTemplate{"SmolVLM", 403, 0x92cf2b51e627e013, utterances},
};

}  // namespace

std::span<const KnownTemplate> known_templates() { return templates; }

}  // namespace ringshard::text
