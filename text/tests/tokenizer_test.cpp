#include "ringshard/text/tokenizer.hpp"
#include "unpacked.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

using nlohmann::json;
using namespace ringshard;
using namespace ringshard::text;

namespace {

const std::filesystem::path data_folder = TOKENIZER_DATA;

std::string content_of(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<json> lines_of(const std::filesystem::path& file) {
    std::istringstream stream(test::unpacked(file));
    std::vector<json> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
    return lines;
}

const std::vector<std::string> kinds = {"qwen2",     "llama3",       "gpt2",      "gpt2_prefix",
                                        "sp_legacy", "sp_metaspace", "nfkc_lower"};

Tokenizer tokenizer_of(const std::string& kind) {
    return Tokenizer::from_file(data_folder / (kind + ".tokenizer.json")).value();
}

std::vector<int32_t> ids_of(const Tokenizer& tokenizer, const std::string& text,
                            SpecialTokens special = SpecialTokens::add) {
    Tokenizer::Scratch scratch(tokenizer);
    std::vector<int32_t> ids;
    BOOST_REQUIRE(!tokenizer.encode(text, special, scratch, ids));
    return ids;
}

// A small byte-level tokenizer with some of its parts replaced.
json small_tokenizer() { return json::parse(content_of(data_folder / "gpt2.tokenizer.json")); }
std::string refusal(const json& content) {
    const auto loaded = Tokenizer::from_json(content.dump(), "some/tokenizer.json");
    return loaded ? "" : loaded.failure().message;
}
void check_refusal(const json& content, const std::string& name) {
    const std::string message = refusal(content);
    BOOST_CHECK_MESSAGE(message.find(name) != std::string::npos &&
                            message.find("some/tokenizer.json") != std::string::npos,
                        "expected a refusal of " << name << ", got \"" << message << '"');
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_word_may_have_no_tokens) {
    json content = small_tokenizer();
    content["model"]["vocab"] = json::object({{"a", 0}});
    content["model"]["merges"] = json::array();
    content["added_tokens"] = json::array();
    content["post_processor"] = nullptr;
    const auto tokenizer = Tokenizer::from_json(content.dump(), "tokenizer.json");
    BOOST_REQUIRE_MESSAGE(tokenizer, refusal(content));
    const std::vector<int32_t> none;
    for (int again = 0; again < 2; ++again) {
        BOOST_TEST(ids_of(tokenizer.value(), "xyz") == none);
        BOOST_TEST(ids_of(tokenizer.value(), "xyz a") == std::vector<int32_t>{0});
    }
}

BOOST_AUTO_TEST_CASE(every_text_gives_the_tokens_of_the_original) {
    for (const std::string& kind : kinds) {
        const Tokenizer tokenizer = tokenizer_of(kind);
        Tokenizer::Scratch scratch(tokenizer);
        for (const json& row : lines_of(data_folder / (kind + ".jsonl"))) {
            const auto text = row["text"].get<std::string>();
            BOOST_TEST_CONTEXT(kind << ": " << row["text"].dump()) {
                std::vector<int32_t> ids, bare, with_spans;
                std::vector<Span> spans;
                BOOST_REQUIRE(!tokenizer.encode(text, SpecialTokens::add, scratch, ids));
                BOOST_REQUIRE(!tokenizer.encode(text, SpecialTokens::leave_out, scratch, bare));
                BOOST_REQUIRE(
                    !tokenizer.encode(text, SpecialTokens::add, scratch, with_spans, spans));
                BOOST_TEST(ids == row["ids"].get<std::vector<int32_t>>());
                BOOST_TEST(bare == row["ids_no_special"].get<std::vector<int32_t>>());
                BOOST_TEST(with_spans == ids);
                BOOST_TEST(spans.size() == ids.size());
                BOOST_TEST(tokenizer.decode(ids, Decoding::everything) ==
                           row["decoded"].get<std::string>());
                BOOST_TEST(tokenizer.decode(ids, Decoding::skip_special_tokens) ==
                           row["decoded_skip_special"].get<std::string>());
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(arbitrary_tokens_give_the_text_of_the_original) {
    for (const std::string& kind : kinds) {
        const Tokenizer tokenizer = tokenizer_of(kind);
        for (const json& row : lines_of(data_folder / (kind + ".decode.jsonl"))) {
            const auto ids = row["ids"].get<std::vector<int32_t>>();
            BOOST_TEST(tokenizer.decode(ids, Decoding::everything) ==
                       row["decoded"].get<std::string>());
            BOOST_TEST(tokenizer.decode(ids, Decoding::skip_special_tokens) ==
                       row["decoded_skip_special"].get<std::string>());
        }
    }
}

BOOST_AUTO_TEST_CASE(spans_are_whole_characters_of_the_text) {
    const Tokenizer tokenizer = tokenizer_of("qwen2");
    Tokenizer::Scratch scratch(tokenizer);
    std::vector<int32_t> ids;
    std::vector<Span> spans;
    const std::string text = "a \xE6\xBC\xA2<|im_end|>  <|left|>x";  // a, a han character, tokens
    BOOST_REQUIRE(!tokenizer.encode(text, SpecialTokens::leave_out, scratch, ids, spans));
    BOOST_TEST(spans.front().first == 0U);
    BOOST_TEST(spans.back().last == text.size());
    for (const Span span : spans) BOOST_TEST(span.first < span.last);
    for (size_t i = 0; i < ids.size(); ++i)
        if (tokenizer.token_of(ids[i]) == "<|left|>")
            BOOST_TEST(text.substr(spans[i].first, spans[i].last - spans[i].first) == "  <|left|>");
}

BOOST_AUTO_TEST_CASE(text_that_is_not_utf8_is_refused_with_its_place) {
    const Tokenizer tokenizer = tokenizer_of("qwen2");
    Tokenizer::Scratch scratch(tokenizer);
    for (const auto& [text, place] : std::vector<std::pair<std::string, std::string>>{
             {"ab\xFFz", "byte 2"},
             {"\xC3", "byte 0"},
             {"abc\xED\xA0\x80", "byte 3"},   // a surrogate
             {"\xF4\x90\x80\x80", "byte 0"},  // beyond the last character
             {"x\xC0\x80", "byte 1"},         // a zero in two bytes
             {std::string(100, 'a') + "\x80", "byte 100"}}) {
        std::vector<int32_t> ids;
        const auto failure = tokenizer.encode(text, SpecialTokens::add, scratch, ids);
        BOOST_REQUIRE(failure.has_value());
        BOOST_TEST(number(failure->code) == 65);
        BOOST_TEST(failure->message.find(place) != std::string::npos, failure->message);
    }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_done_exactly_is_refused_by_name) {
    const auto with = [](const char* part, const json& value) {
        json content = small_tokenizer();
        content[part] = value;
        return content;
    };
    check_refusal(with("normalizer", {{"type", "BertNormalizer"}}), "BertNormalizer");
    check_refusal(with("normalizer", {{"type", "Precompiled"}}), "Precompiled");
    check_refusal(with("pre_tokenizer", {{"type", "UnicodeScripts"}}), "UnicodeScripts");
    check_refusal(with("post_processor", {{"type", "BertProcessing"}}), "BertProcessing");
    check_refusal(with("decoder", {{"type", "WordPiece"}}), "WordPiece");
    check_refusal(with("model", {{"type", "Unigram"}, {"vocab", json::array()}}), "Unigram");
    check_refusal(with("version", "2.0"), "2.0");
    json content = small_tokenizer();
    content["model"]["dropout"] = 0.1;
    check_refusal(content, "dropout");
    content = small_tokenizer();
    content["model"]["end_of_word_suffix"] = "</w>";
    check_refusal(content, "end_of_word_suffix");
    content = small_tokenizer();
    content["model"]["merges"].push_back("nowhere tobefound");
    check_refusal(content, "nowhere");
    content = small_tokenizer();
    content.erase("model");
    check_refusal(content, "model");
    const auto split = [&](const std::string& regex) {
        return with("pre_tokenizer", {{"type", "Split"},
                                      {"pattern", {{"Regex", regex}}},
                                      {"behavior", "Isolated"},
                                      {"invert", false}});
    };
    check_refusal(split("\\p{Hangul}"), "Hangul");
    check_refusal(split("[a[bc]]"), "a class within a class");
    check_refusal(split("\\h+"), "\\h");
    check_refusal(split("(unclosed"), "(unclosed");
}

BOOST_AUTO_TEST_CASE(added_tokens_get_the_next_ids) {
    Tokenizer tokenizer = tokenizer_of("qwen2");
    const int64_t size = tokenizer.vocab_size();
    BOOST_TEST(!tokenizer.id_of("<|new|>").has_value());
    BOOST_REQUIRE(!tokenizer.add_tokens(
        {{{.content = "<|new|>", .special = true}, {.content = "<|im_end|>", .special = true}}}));
    BOOST_TEST(tokenizer.vocab_size() == size + 1);
    BOOST_TEST(tokenizer.id_of("<|new|>").value() == size);
    BOOST_TEST(tokenizer.token_of(static_cast<int32_t>(size)).value() == "<|new|>");
    BOOST_TEST(ids_of(tokenizer, "<|new|>") == std::vector<int32_t>{static_cast<int32_t>(size)});
    BOOST_TEST(tokenizer.is_special("<|new|>"));
}

BOOST_AUTO_TEST_CASE(a_text_without_spaces_does_not_take_quadratic_time) {
    const char* const patience = std::getenv("PATIENCE");  // sanitizers make it slow
    const double limit = 20 * (patience == nullptr ? 1 : std::atof(patience));
    for (const std::string& kind : kinds) {
        const Tokenizer tokenizer = tokenizer_of(kind);
        for (const std::string& unit :
             {std::string("a"), std::string("abcdefgh"), std::string(" "), std::string("\xCC\x81"),
              std::string("\n "), std::string("1")}) {
            std::string text;
            while (text.size() < 1'000'000) text += unit;
            const auto start = std::chrono::steady_clock::now();
            const auto ids = ids_of(tokenizer, text);
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
            BOOST_TEST(!ids.empty());
            BOOST_TEST(took.count() < limit,
                       kind << " took " << took.count() << " s for 1 MB of " << json(unit).dump());
        }
    }
}

// A file that is cut, shuffled or has bytes changed is refused or read, and then encodes: never
// more than that.
BOOST_AUTO_TEST_CASE(broken_files_are_refused_or_read) {
    std::mt19937 random(17);
    const auto below = [&](size_t n) {
        return std::uniform_int_distribution<size_t>(0, n - 1)(random);
    };
    const std::string alphabet = "{}[]\",:0123456789truefalsnl\\-ABcd \x80\xFF";
    size_t refused = 0;
    for (const std::string& kind : kinds) {
        // The vocabulary is cut down so that most changes hit the rest.
        json small = json::parse(content_of(data_folder / (kind + ".tokenizer.json")));
        json vocab = json::object();
        for (const auto& [token, id] : small["model"]["vocab"].items())
            if (token.size() <= 2 || vocab.size() < 30) vocab[token] = id;
        small["model"]["vocab"] = vocab;
        small["model"]["merges"] = json::array();
        small["added_tokens"].erase(small["added_tokens"].begin() + 6, small["added_tokens"].end());
        const std::string whole = small.dump();
        for (int round = 0; round < 700; ++round) {
            std::string broken = whole;
            for (size_t change = below(4) + 1; change > 0 && broken.size() > 2; --change) {
                const size_t place = below(broken.size());
                switch (below(4)) {
                    case 0: broken[place] = alphabet[below(alphabet.size())]; break;
                    case 1: broken.erase(place, below(20)); break;
                    case 2:
                        broken.insert(place, broken.substr(below(broken.size()), below(40)));
                        break;
                    default: broken.resize(std::max<size_t>(place, 2)); break;
                }
            }
            const auto loaded = Tokenizer::from_json(broken, "broken");
            if (!loaded) {
                BOOST_TEST(!loaded.failure().message.empty());
                ++refused;
                continue;
            }
            Tokenizer::Scratch scratch(loaded.value());
            std::vector<int32_t> ids, again;
            std::vector<Span> spans;
            const std::string text = "Some Text, 123 \xC3\xA9 <|left|>  \xE2\x96\x81 \n";
            (void)loaded.value().encode(text, SpecialTokens::add, scratch, ids);
            (void)loaded.value().encode(text, SpecialTokens::add, scratch, again, spans);
            (void)loaded.value().decode(ids, Decoding::everything);
        }
    }
    BOOST_TEST(refused > 1000U);
}
