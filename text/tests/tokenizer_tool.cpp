// Drives a tokenizer for the tests in Python:
//   tokenizer_tool tokenizer.json < requests.jsonl > answers.jsonl
// A request is {"text": ...} or {"decode": [ids]}; what goes wrong comes back as {"error": ...}.
// Of a folder instead of a file, the first answer holds what stands beside the tokenizer.
//   tokenizer_tool tokenizer.json --speed N < lines    times N rounds over the lines of the input
//   tokenizer_tool tokenizer.json --memory 1           what the process holds after loading
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ringshard/base/utf8.hpp"
#include "ringshard/text/tokenizer.hpp"
#include "ringshard/text/tokenizer_folder.hpp"

using nlohmann::json;
using namespace ringshard::text;

namespace {

json character_spans(const std::string& text, const std::vector<Span>& spans) {
    std::vector<uint32_t> characters(text.size() + 1);
    uint32_t count = 0;
    for (size_t byte = 0; byte < text.size(); ++byte) {
        characters[byte] = count;
        if (byte + 1 == text.size() || !ringshard::is_continuation(text[byte + 1])) ++count;
    }
    characters[text.size()] = count;
    json result = json::array();
    for (const Span span : spans) result.push_back({characters[span.first], characters[span.last]});
    return result;
}

json answer(const Tokenizer& tokenizer, Tokenizer::Scratch& scratch, const json& request) {
    if (request.contains("decode")) {
        const auto ids = request["decode"].get<std::vector<int32_t>>();
        return {{"decoded", tokenizer.decode(ids, Decoding::everything)},
                {"decoded_skip_special", tokenizer.decode(ids, Decoding::skip_special_tokens)}};
    }
    const auto text = request["text"].get<std::string>();
    std::vector<int32_t> ids, bare, spanned, spanned_bare;
    std::vector<Span> spans, bare_spans;
    if (auto failure = tokenizer.encode(text, SpecialTokens::add, scratch, ids))
        return {{"error", failure->message}};
    (void)tokenizer.encode(text, SpecialTokens::leave_out, scratch, bare);
    (void)tokenizer.encode(text, SpecialTokens::add, scratch, spanned, spans);
    (void)tokenizer.encode(text, SpecialTokens::leave_out, scratch, spanned_bare, bare_spans);
    if (spanned != ids || spanned_bare != bare || spans.size() != ids.size())
        return {{"error", "with spans the tokens are others"}, {"ids", ids}, {"spanned", spanned}};
    return {{"ids", ids},
            {"ids_no_special", bare},
            {"offsets", character_spans(text, spans)},
            {"decoded", tokenizer.decode(ids, Decoding::everything)},
            {"decoded_skip_special", tokenizer.decode(ids, Decoding::skip_special_tokens)}};
}

void time_rounds(const Tokenizer& tokenizer, int rounds) {
    std::vector<std::string> texts;
    size_t bytes = 0;
    for (std::string line; std::getline(std::cin, line);) {
        texts.push_back(json::parse(line)["text"].get<std::string>());
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
        std::cout << json{{"seconds", seconds.count()}, {"bytes", bytes}, {"tokens", tokens}}
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
    std::cout << json{{"refused", message}}.dump(-1, ' ', false, json::error_handler_t::replace)
              << '\n';
    return 0;
}

void answer_all(const Tokenizer& tokenizer) {
    Tokenizer::Scratch scratch(tokenizer);
    for (std::string line; std::getline(std::cin, line);)
        std::cout << answer(tokenizer, scratch, json::parse(line)) << '\n';
}

int answer_folder(const std::string& path) {
    const auto folder = TokenizerFolder::read(path);
    if (!folder) return refused(folder.failure().message);
    const TokenizerFolder& found = folder.value();
    json tokens = json::array();
    for (const auto& [name, text] : found.special_tokens)
        tokens.push_back({name, text, found.special_token_id(name).value_or(-1)});
    std::cout << json{{"vocab_size", found.tokenizer.vocab_size()},
                      {"special_tokens", tokens},
                      {"extra_special_tokens", found.extra_special_tokens},
                      {"chat_templates", found.chat_templates}}
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
        std::cout << json{{"resident_kib", resident_kib()}} << '\n';
    } else {
        std::cout << json{{"vocab_size", tokenizer.vocab_size()}} << '\n';
        answer_all(tokenizer);
    }
}
