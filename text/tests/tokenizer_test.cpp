#include "ringshard/text/tokenizer.hpp"
#include "ringshard/text/value.hpp"
#include "unpacked.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

using namespace ringshard;
using namespace ringshard::text;

namespace {

const std::filesystem::path data_folder = TOKENIZER_DATA;

std::string content_of(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

Value parsed(const std::string& json) { return read_json(json).value(); }
// Returns a member, null at first if the object has none of that name.
Value& member(Value& object, std::string_view name) {
    if (object.find(name) == nullptr) object.set(name, Value());
    return std::ranges::find(*object.object(), name, [](const auto& each) { return each.first; })
        ->second;
}
const std::string& text_of(const Value& object, const char* name) {
    return *object.find(name)->string();
}
std::vector<int32_t> numbers_of(const Value& object, const char* name) {
    std::vector<int32_t> numbers;
    for (const Value& each : *object.find(name)->list())
        numbers.push_back(static_cast<int32_t>(*each.integer()));
    return numbers;
}

std::vector<Value> lines_of(const std::filesystem::path& file) {
    std::istringstream stream(test::unpacked(file));
    std::vector<Value> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(parsed(line));
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
Value small_tokenizer() { return parsed(content_of(data_folder / "gpt2.tokenizer.json")); }
std::string refusal(const Value& content) {
    const auto loaded = Tokenizer::from_json(to_json(content), "some/tokenizer.json");
    return loaded ? "" : loaded.failure().message;
}
void check_refusal(const Value& content, const std::string& name) {
    const std::string message = refusal(content);
    BOOST_CHECK_MESSAGE(message.find(name) != std::string::npos &&
                            message.find("some/tokenizer.json") != std::string::npos,
                        "expected a refusal of " << name << ", got \"" << message << '"');
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_word_may_have_no_tokens) {
    Value content = small_tokenizer();
    member(content, "model").set("vocab", parsed(R"({"a": 0})"));
    member(content, "model").set("merges", parsed("[]"));
    content.set("added_tokens", parsed("[]"));
    content.set("post_processor", Value());
    const auto tokenizer = Tokenizer::from_json(to_json(content), "tokenizer.json");
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
        for (const Value& row : lines_of(data_folder / (kind + ".jsonl"))) {
            const std::string& text = text_of(row, "text");
            BOOST_TEST_CONTEXT(kind << ": " << to_json(*row.find("text"))) {
                std::vector<int32_t> ids, bare, with_spans;
                std::vector<Span> spans;
                BOOST_REQUIRE(!tokenizer.encode(text, SpecialTokens::add, scratch, ids));
                BOOST_REQUIRE(!tokenizer.encode(text, SpecialTokens::leave_out, scratch, bare));
                BOOST_REQUIRE(
                    !tokenizer.encode(text, SpecialTokens::add, scratch, with_spans, spans));
                BOOST_TEST(ids == numbers_of(row, "ids"));
                BOOST_TEST(bare == numbers_of(row, "ids_no_special"));
                BOOST_TEST(with_spans == ids);
                BOOST_TEST(spans.size() == ids.size());
                BOOST_TEST(tokenizer.decode(ids, Decoding::everything) == text_of(row, "decoded"));
                BOOST_TEST(tokenizer.decode(ids, Decoding::skip_special_tokens) ==
                           text_of(row, "decoded_skip_special"));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(arbitrary_tokens_give_the_text_of_the_original) {
    for (const std::string& kind : kinds) {
        const Tokenizer tokenizer = tokenizer_of(kind);
        for (const Value& row : lines_of(data_folder / (kind + ".decode.jsonl"))) {
            const auto ids = numbers_of(row, "ids");
            BOOST_TEST(tokenizer.decode(ids, Decoding::everything) == text_of(row, "decoded"));
            BOOST_TEST(tokenizer.decode(ids, Decoding::skip_special_tokens) ==
                       text_of(row, "decoded_skip_special"));
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
    const auto with = [](const char* part, const char* json) {
        Value content = small_tokenizer();
        content.set(part, parsed(json));
        return content;
    };
    const auto with_model = [](const char* field, const char* json) {
        Value content = small_tokenizer();
        member(content, "model").set(field, parsed(json));
        return content;
    };
    check_refusal(with("normalizer", R"({"type": "BertNormalizer"})"), "BertNormalizer");
    check_refusal(with("normalizer", R"({"type": "Precompiled"})"), "Precompiled");
    check_refusal(with("pre_tokenizer", R"({"type": "UnicodeScripts"})"), "UnicodeScripts");
    check_refusal(with("post_processor", R"({"type": "BertProcessing"})"), "BertProcessing");
    check_refusal(with("decoder", R"({"type": "WordPiece"})"), "WordPiece");
    check_refusal(with("model", R"({"type": "Unigram", "vocab": []})"), "Unigram");
    check_refusal(with("version", R"("2.0")"), "2.0");
    check_refusal(with_model("dropout", "0.1"), "dropout");
    check_refusal(with_model("end_of_word_suffix", R"("</w>")"), "end_of_word_suffix");
    Value content = small_tokenizer();
    member(member(content, "model"), "merges")
        .list()
        ->emplace_back(std::string("nowhere tobefound"));
    check_refusal(content, "nowhere");
    content = small_tokenizer();
    std::erase_if(*content.object(), [](const auto& each) { return each.first == "model"; });
    check_refusal(content, "model");
    const auto split = [&](const std::string& regex) {
        Value part = parsed(R"({"type": "Split", "behavior": "Isolated", "invert": false})");
        part.set("pattern", Value(Value::Object{{"Regex", Value(regex)}}));
        return with("pre_tokenizer", to_json(part).c_str());
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
            BOOST_TEST(took.count() < limit, kind << " took " << took.count() << " s for 1 MB of "
                                                  << to_json(Value(unit)));
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
        Value small = parsed(content_of(data_folder / (kind + ".tokenizer.json")));
        Value& model = member(small, "model");
        size_t kept = 0;
        std::erase_if(*member(model, "vocab").object(), [&](const auto& token) {
            const bool stays = token.first.size() <= 2 || kept < 30;
            kept += stays ? 1 : 0;
            return !stays;
        });
        model.set("merges", parsed("[]"));
        member(small, "added_tokens").list()->resize(6);
        const std::string whole = to_json(small);
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
