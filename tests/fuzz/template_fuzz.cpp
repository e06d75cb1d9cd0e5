// libFuzzer: a chat template, a zero byte and a list of messages in JSON, all of them broken in any
// way. Nothing may crash, hang or grow beyond the limits; refusing is right.
#include "fuzz_folder.hpp"
#include "ringshard/text/assistant_spans.hpp"

int try_reader(const uint8_t* data, size_t size) {
    using namespace ringshard;
    std::string_view input = test::text_of(data, size);
    const std::string source(test::take_text(input));
    auto parsed = text::ChatTemplate::parse(
        source, "fuzz",
        {.steps = 20'000, .output_bytes = size_t{1} << 20, .held_bytes = size_t{16} << 20});
    if (!parsed) return 0;
    parsed.value().set_clock([] { return std::tm{}; });
    const auto read = text::read_json(input.empty() ? R"([{"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Ho"}])"
                                                    : input);
    if (!read || read.value().list() == nullptr || read.value().list()->empty()) return 0;
    for (const text::Value& message : *read.value().list())
        if (message.object() == nullptr) return 0;
    const text::Value::Object variables{{"bos_token", text::Value(std::string("<s>"))},
                                        {"eos_token", text::Value(std::string("</s>"))}};
    text::Conversation conversation{
        .messages = *read.value().list(), .variables = &variables, .add_generation_prompt = true};
    const auto rendered = parsed.value().render(conversation);
    if (rendered)
        for (const text::ByteRange& range : rendered.value().assistant)
            if (range.begin > range.end || range.end > rendered.value().text.size())
                __builtin_trap();
    conversation.add_generation_prompt = false;
    (void)text::find_assistant_spans(parsed.value(), conversation);
    return 0;
}
