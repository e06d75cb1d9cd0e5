// Drives a tokenizer for the tests in Python:
//   tokenizer_tool tokenizer.json < requests.jsonl > answers.jsonl
// A request is {"text": ...} or {"decode": [ids]}; a failure is {"error": ...}.
// Of a folder instead of a file, the first answer holds what stands beside the tokenizer.
//   tokenizer_tool tokenizer.json --speed N < lines    times N rounds over the lines of the input
//   tokenizer_tool tokenizer.json --memory 1           what the process holds after loading
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iostream>

#include "ringshard/base/utf8.hpp"
#include "ringshard/text/tokenizer.hpp"
#include "ringshard/text/tokenizer_folder.hpp"
#include "ringshard/text/value.hpp"

using namespace ringshard;
using namespace ringshard::text;

namespace {

Value number(size_t value) { return Value(static_cast<int64_t>(value)); }
Value text(std::string value) { return Value(std::move(value)); }
Value object(Value::Object members) { return Value(std::move(members)); }

// Parses a line of the input; the tests write no wrong ones.
Value parsed(const std::string& line) { return read_json(line).value(); }

Value character_spans(const std::string& input, const std::vector<Span>& spans) {
    std::vector<size_t> characters(input.size() + 1);
    size_t count = 0;
    for (size_t byte = 0; byte < input.size(); ++byte) {
        characters[byte] = count;
        if (byte + 1 == input.size() || !is_continuation(input[byte + 1])) ++count;
    }
    characters[input.size()] = count;
    Value::List result;
    for (const Span span : spans)
        result.emplace_back(
            Value::List{number(characters[span.first]), number(characters[span.last])});
    return Value(std::move(result));
}

Value answer(const Tokenizer& tokenizer, Tokenizer::Scratch& scratch, const Value& request) {
    const auto decoded = [&](const std::vector<int32_t>& ids, Decoding how) {
        return text(tokenizer.decode(ids, how));
    };
    if (const Value* const list = request.find("decode")) {
        std::vector<int32_t> ids;
        for (const Value& id : *list->list()) ids.push_back(static_cast<int32_t>(*id.integer()));
        return object({{"decoded", decoded(ids, Decoding::everything)},
                       {"decoded_skip_special", decoded(ids, Decoding::skip_special_tokens)}});
    }
    const std::string& input = *request.find("text")->string();
    std::vector<int32_t> ids, bare, spanned, spanned_bare;
    std::vector<Span> spans, bare_spans;
    if (auto failure = tokenizer.encode(input, SpecialTokens::add, scratch, ids))
        return object({{"error", text(failure->message)}});
    (void)tokenizer.encode(input, SpecialTokens::leave_out, scratch, bare);
    (void)tokenizer.encode(input, SpecialTokens::add, scratch, spanned, spans);
    (void)tokenizer.encode(input, SpecialTokens::leave_out, scratch, spanned_bare, bare_spans);
    if (spanned != ids || spanned_bare != bare || spans.size() != ids.size())
        return object({{"error", text("with spans the tokens are others")},
                       {"ids", to_list(ids)},
                       {"spanned", to_list(spanned)}});
    return object({{"ids", to_list(ids)},
                   {"ids_no_special", to_list(bare)},
                   {"offsets", character_spans(input, spans)},
                   {"decoded", decoded(ids, Decoding::everything)},
                   {"decoded_skip_special", decoded(ids, Decoding::skip_special_tokens)}});
}

void time_rounds(const Tokenizer& tokenizer, int rounds) {
    std::vector<std::string> texts;
    size_t bytes = 0;
    for (std::string line; std::getline(std::cin, line);) {
        texts.push_back(*parsed(line).find("text")->string());
        bytes += texts.back().size();
    }
    for (int round = 0; round < rounds; ++round) {
        Tokenizer::Scratch scratch(tokenizer);
        size_t tokens = 0;
        const auto start = std::chrono::steady_clock::now();
        for (const std::string& text : texts) {
            std::vector<int32_t> ids;
            (void)tokenizer.encode(text, SpecialTokens::add, scratch, ids);
            tokens += ids.size();
        }
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        std::cout << to_json(object({{"seconds", Value(seconds.count())},
                                     {"bytes", number(bytes)},
                                     {"tokens", number(tokens)}}))
                  << std::endl;
    }
}

int64_t resident_kib() {
    std::ifstream statistics("/proc/self/statm");
    int64_t all = 0, resident = 0;
    statistics >> all >> resident;
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

int refused(const std::string& message) {
    std::string shown;
    append_lossy(shown, message);
    std::cout << to_json(object({{"refused", text(std::move(shown))}})) << '\n';
    return 0;
}

void answer_all(const Tokenizer& tokenizer) {
    Tokenizer::Scratch scratch(tokenizer);
    for (std::string line; std::getline(std::cin, line);)
        std::cout << to_json(answer(tokenizer, scratch, parsed(line))) << '\n';
}

int answer_folder(const std::string& path) {
    const auto folder = TokenizerFolder::read(path);
    if (!folder) return refused(folder.failure().message);
    const TokenizerFolder& found = folder.value();
    Value::List tokens;
    for (const auto& [name, content] : found.special_tokens)
        tokens.emplace_back(Value::List{text(name), text(content),
                                        Value(int64_t{found.special_token_id(name).value_or(-1)})});
    Value::Object templates;
    for (const auto& [name, source] : found.chat_templates)
        templates.emplace_back(name, text(source));
    std::cout << to_json(object({{"vocab_size", Value(int64_t{found.tokenizer.vocab_size()})},
                                 {"special_tokens", Value(std::move(tokens))},
                                 {"extra_special_tokens", to_list(found.extra_special_tokens)},
                                 {"chat_templates", Value(std::move(templates))}}))
              << '\n';
    answer_all(found.tokenizer);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) return 64;
    if (std::filesystem::is_directory(argv[1])) return answer_folder(argv[1]);
    const auto loaded = Tokenizer::from_file(argv[1]);
    if (!loaded) return refused(loaded.failure().message);
    const Tokenizer& tokenizer = loaded.value();
    const std::string_view task = argc > 3 ? argv[2] : "";
    if (task == "--speed") {
        time_rounds(tokenizer, std::stoi(argv[3]));
    } else if (task == "--memory") {
        std::cout << to_json(object({{"resident_kib", Value(resident_kib())}})) << '\n';
    } else {
        std::cout << to_json(object({{"vocab_size", Value(int64_t{tokenizer.vocab_size()})}}))
                  << '\n';
        answer_all(tokenizer);
    }
}
