#include "tokenizer_class.hpp"

#include <algorithm>
#include <array>

#include "ringshard/text/value.hpp"
#include "scanners.hpp"

namespace ringshard::text {

namespace {

constexpr std::string_view generic = "TokenizersBackend";

// The tokenizer class of a model type, and whether it overrides the folder's class.
struct ModelClass {
    std::string_view model_type;
    std::string_view name;
    bool overrules;
};
constexpr ModelClass model_classes[] = {
    {"gpt2", "GPT2Tokenizer", false},
    {"mistral", generic, false},
    {"mixtral", generic, false},
    {"olmo2", generic, false},
    {"phi3", generic, true},
    {"qwen2", "Qwen2Tokenizer", true},
    {"qwen2_moe", "Qwen2Tokenizer", false},
    {"qwen3", "Qwen2Tokenizer", false},
    {"qwen3_moe", "Qwen2Tokenizer", false},
};

// Classes that build a pipeline of their own, which this program does not support.
constexpr std::string_view unsupported[] = {
    "AlbertTokenizer",
    "BartTokenizer",
    "BartphoTokenizer",
    "BertTokenizer",
    "BioGptTokenizer",
    "BlenderbotTokenizer",
    "BlenderbotSmallTokenizer",
    "ByT5Tokenizer",
    "CLIPTokenizer",
    "CTRLTokenizer",
    "CamembertTokenizer",
    "CodeLlamaTokenizer",
    "CohereTokenizer",
    "CpmAntTokenizer",
    "CpmTokenizer",
    "DebertaTokenizer",
    "DebertaV2Tokenizer",
    "DiaTokenizer",
    "EsmTokenizer",
    "EsmcTokenizer",
    "GPTNeoXJapaneseTokenizer",
    "GPTNeoXTokenizer",
    "GemmaTokenizer",
    "LEDTokenizer",
    "MBart50Tokenizer",
    "MBartTokenizer",
    "MPNetTokenizer",
    "MyT5Tokenizer",
    "NllbTokenizer",
    "OpenAIGPTTokenizer",
    "PLBartTokenizer",
    "PegasusTokenizer",
    "PhobertTokenizer",
    "Qwen3_5Tokenizer",
    "RemBertTokenizer",
    "RoFormerTokenizer",
    "RobertaTokenizer",
    "SeamlessM4TTokenizer",
    "T5Tokenizer",
    "UdopTokenizer",
    "WhisperTokenizer",
    "XGLMTokenizer",
    "XLMRobertaTokenizer",
    "XLMTokenizer",
    "XLNetTokenizer",
};

std::string without_fast(std::string_view name) {
    if (name.ends_with("Fast")) name.remove_suffix(4);
    return std::string(name);
}

TokenizerClass class_named(const std::string& name) {
    if (name == "Qwen2Tokenizer")
        return {name,
                true,
                true,
                {{"unk_token", "<|endoftext|>"},
                 {"eos_token", "<|endoftext|>"},
                 {"pad_token", "<|endoftext|>"}}};
    if (name == "LlamaTokenizer")
        return {name,
                true,
                true,
                {{"unk_token", "<unk>"}, {"bos_token", "<s>"}, {"eos_token", "</s>"}}};
    if (name == "GPT2Tokenizer")
        return {name,
                true,
                true,
                {{"unk_token", "<|endoftext|>"},
                 {"bos_token", "<|endoftext|>"},
                 {"eos_token", "<|endoftext|>"}}};
    if (std::ranges::find(unsupported, name) != std::end(unsupported))
        return {name, true, false, {}};
    return {std::string(generic), false, true, {}};  // its other names, and unknown classes
}

// The functions below return JSON.
const char* truth(bool value) { return value ? "true" : "false"; }

std::string byte_level(bool add_prefix_space, bool use_regex) {
    return format_text(R"({{"type": "ByteLevel", "trim_offsets": true, "add_prefix_space": {}, )"
                       R"("use_regex": {}}})",
                       truth(add_prefix_space), truth(use_regex));
}

std::string model(bool is_sentencepiece) {
    return format_text(R"({{"unk_token": null, "ignore_merges": false, "fuse_unk": {}, )"
                       R"("byte_fallback": {}}})",
                       truth(is_sentencepiece), truth(is_sentencepiece));
}

std::string llama_parts(bool prefix, bool legacy) {
    const char* const scheme = !prefix ? "never" : legacy ? "always" : "first";
    return format_text(
        R"({{"normalizer": null, "added_tokens": [], "model": {}, "pre_tokenizer": )"
        R"({{"type": "Metaspace", "replacement": "\u2581", "split": false, )"
        R"("prepend_scheme": "{}"}}, "decoder": {{"type": "Sequence", "decoders": )"
        R"([{{"type": "Replace", "pattern": {{"String": "\u2581"}}, "content": " )"
        R"("}},{{"type": "ByteFallback"}}, {{"type": "Fuse"}}{}]}}}})",
        model(true), scheme,
        prefix ? R"(, {"type": "Strip", "content": " ", "start": 1, "stop": 0})" : "");
}

std::string gpt2_parts(bool prefix) {
    return format_text(R"({{"normalizer": null, "added_tokens": [], "model": {}, "decoder": {}, )"
                       R"("pre_tokenizer": {}}})",
                       model(false), byte_level(true, true), byte_level(prefix, true));
}

std::string qwen2_parts(bool prefix) {
    const std::string pattern = to_json(Value(std::string(pattern_of(Scanner::one_digit))));
    return format_text(R"({{"normalizer": {{"type": "NFC"}}, "added_tokens": [], "model": {}, )"
                       R"("decoder": {}, "pre_tokenizer": {{"type": "Sequence", "pretokenizers": )"
                       R"([{{"type": "Split", "behavior": "Isolated", "invert": false, )"
                       R"("pattern": {{"Regex": {}}}}}, {}]}}}})",
                       model(false), byte_level(true, true), pattern, byte_level(prefix, false));
}

}  // namespace

TokenizerClass choose_class(const ClassClues& clues) {
    const auto* const model =
        std::ranges::find(model_classes, clues.model_type, &ModelClass::model_type);
    const bool has_model_class = model != std::end(model_classes);
    const std::string stated = without_fast(clues.stated.value_or(""));
    const bool overrules = has_model_class && model->overrules;
    // Mistral's models have their own class if its package is installed; here it is generic.
    const bool is_mistral = clues.model_type == "mistral" || clues.model_type == "mixtral";
    if (stated == "LlamaTokenizer" && clues.mentions_byte_level && !overrules && !is_mistral)
        return class_named(std::string(generic));
    if (!clues.stated)
        return class_named(has_model_class ? std::string(model->name) : std::string(generic));
    if (has_model_class && model->name != stated) {
        if (model->name == generic) return class_named(std::string(generic));
        return class_named(overrules ? std::string(model->name) : stated);
    }
    return class_named(stated);
}

std::string rebuilt_parts(const TokenizerClass& tokenizer_class, const RebuildSettings& settings) {
    if (!tokenizer_class.rebuilds) return "{}";
    if (tokenizer_class.name == "LlamaTokenizer")
        return llama_parts(settings.add_prefix_space.value_or(true), settings.legacy);
    const bool prefix = settings.add_prefix_space.value_or(false);
    return tokenizer_class.name == "Qwen2Tokenizer" ? qwen2_parts(prefix) : gpt2_parts(prefix);
}

}  // namespace ringshard::text
