// libFuzzer: a tokenizer.json, a zero byte and a text, all of them broken in any way. Nothing may
// crash, hang or leak; refusing is right.
#include <string_view>

#include "ringshard/text/tokenizer.hpp"

int try_reader(const uint8_t* data, size_t size) {
    using namespace ringshard::text;
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const size_t border = input.find('\0');
    const std::string_view file = input.substr(0, border);
    const std::string_view text =
        border == std::string_view::npos ? "Some text 123" : input.substr(border + 1);
    const auto loaded = Tokenizer::from_json(file, "fuzz");
    if (!loaded) return 0;
    Tokenizer::Scratch scratch(loaded.value());
    std::vector<int32_t> ids, with_spans;
    std::vector<Span> spans;
    (void)loaded.value().encode(text, SpecialTokens::add, scratch, ids);
    (void)loaded.value().encode(text, SpecialTokens::add, scratch, with_spans, spans);
    (void)loaded.value().decode(ids, Decoding::everything);
    return 0;
}
