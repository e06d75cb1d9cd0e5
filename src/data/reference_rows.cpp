#include "ringshard/data/reference_rows.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <optional>

#include "ringshard/base/files.hpp"
#include "ringshard/base/hash.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/base/utf8.hpp"
#include "ringshard/text/chat_template.hpp"
#include "ringshard/text/tokenizer_folder.hpp"

namespace ringshard::data {

namespace {

using text::Value;

constexpr size_t most_rows = 16;
constexpr int64_t tokens_of_row_of_ids = 16;
constexpr int64_t hashes_of_vocabulary = 64;

// Words, numbers, code, other scripts and white space.
const std::vector<std::string>& reference_texts() {
    static const std::vector<std::string> texts{
        "The quick brown fox jumps over the lazy dog.",
        "In 1969, 3 people travelled 384,400 km; 2 of them walked there.",
        "def area(r):\n    return 3.14159 * r ** 2\n\nprint(area(2))",
        "Les élèves étaient déjà là: où êtes-vous, mon cœur?",
        "天気がいいから、散歩しましょう。你好，世界！",
        "  Two spaces,\ta tab\n\n\nand three ends of lines  ",
        "{\"name\": \"ring\", \"sizes\": [1, 2, 4], \"ok\": true}",
        "I'm sure they'll say it's fine 👍🏽 -- isn't it?"};
    return texts;
}

Value message(const char* role, const char* content) {
    return Value(Value::Object{{"role", Value(std::string(role))},
                               {"content", Value(std::string(content))}});
}

struct ReferenceChat {
    Value::List messages;
    bool adds_generation_prompt;
};

std::vector<ReferenceChat> reference_chats() {
    const Value question = message("user", "What is a ring?");
    const Value answer = message("assistant", "A band without an end.");
    return {{{question}, true},
            {{message("system", "Answer in one sentence."), question}, true},
            {{question, answer, message("user", "And a chain?")}, true},
            {{question, answer}, false}};
}

// A template may print the date: all renderings are of one day.
std::tm fixed_time() {
    std::tm time{};
    time.tm_year = 2024 - 1900;
    time.tm_mday = 1;
    time.tm_wday = 1;
    time.tm_hour = 12;
    return time;
}

// Tokenizer and chat template of a folder.
class FolderTexts {
public:
    static Expected<FolderTexts> read(const std::filesystem::path& folder) {
        auto found = text::TokenizerFolder::read(folder);
        if (!found) return found.failure();
        FolderTexts texts(std::move(found).value());
        if (const auto source = texts.folder_.chat_template(false)) {
            auto parsed = text::ChatTemplate::parse(*source, "the chat template");
            if (!parsed) return parsed.failure();
            texts.template_ = std::move(parsed).value();
            texts.template_->set_clock(fixed_time);
        }
        for (const auto& [name, token] : texts.folder_.special_tokens)
            texts.variables_.emplace_back(name, Value(token));
        return texts;
    }
    const text::Tokenizer& tokenizer() const { return folder_.tokenizer; }
    bool has_template() const { return template_.has_value(); }

    Expected<std::vector<int32_t>> encode(const std::string& text,
                                          text::SpecialTokens special) const {
        text::Tokenizer::Scratch scratch(folder_.tokenizer);
        std::vector<int32_t> ids;
        if (auto failure = folder_.tokenizer.encode(text, special, scratch, ids)) return *failure;
        return ids;
    }
    Expected<std::string> render(const Value::List& messages, bool adds_generation_prompt) const {
        auto rendered = template_->render({.messages = messages,
                                           .variables = &variables_,
                                           .add_generation_prompt = adds_generation_prompt});
        if (!rendered) return rendered.failure();
        return std::move(rendered).value().text;
    }

private:
    explicit FolderTexts(text::TokenizerFolder folder) : folder_(std::move(folder)) {}
    text::TokenizerFolder folder_;
    std::optional<text::ChatTemplate> template_;
    Value::Object variables_;
};

std::vector<std::string> hash_vocabulary(const text::Tokenizer& tokenizer, int64_t vocab_size,
                                         int64_t at_once) {
    std::vector<std::string> hashes;
    for (int64_t first = 0; first < vocab_size; first += at_once) {
        std::string tokens;
        for (int64_t id = first; id < std::min(vocab_size, first + at_once); ++id)
            tokens += tokenizer.token_of(static_cast<int32_t>(id)).value_or("") + '\0';
        hashes.push_back(hash_of(tokens).substr(0, 16));
    }
    return hashes;
}

// Ids over the whole vocabulary, the same for every model of its size.
ReferenceRow row_of_ids(uint64_t number, int64_t vocabulary, int64_t longest) {
    ReferenceRow row;
    uint64_t state = number * 0x9E3779B97F4A7C15U + 1;
    for (int64_t i = 0; i < std::min(longest, tokens_of_row_of_ids); ++i) {
        state ^= state << 13U;
        state ^= state >> 7U;
        state ^= state << 17U;
        row.tokens.push_back(static_cast<int32_t>(state % static_cast<uint64_t>(vocabulary)));
    }
    return row;
}

void add_texts(const FolderTexts& texts, std::vector<ReferenceRow>& rows) {
    for (const std::string& text : reference_texts()) {
        auto ids = texts.encode(text, text::SpecialTokens::add);
        if (ids) rows.push_back({.text = text, .tokens = std::move(ids).value()});
    }
    if (!texts.has_template()) return;
    for (const auto& [messages, adds_generation_prompt] : reference_chats()) {
        const auto rendered = texts.render(messages, adds_generation_prompt);
        if (!rendered) continue;  // such as a template that refuses a system message
        auto ids = texts.encode(rendered.value(), text::SpecialTokens::leave_out);
        if (ids)
            rows.push_back({.messages = Value(messages),
                            .adds_generation_prompt = adds_generation_prompt,
                            .rendered = rendered.value(),
                            .tokens = std::move(ids).value()});
    }
}

// Returns about so many bytes of a text, in whole characters and in quotes.
std::string quote_part(const std::string& text, size_t from, size_t bytes) {
    if (from >= text.size()) return "\"\"";
    const size_t begin = code_point_start(text, from);
    const size_t end =
        text.size() - from > bytes ? code_point_start(text, from + bytes) : text.size();
    return to_json(Value(text.substr(begin, end - begin)));
}

std::string first_difference(const std::string& now, const std::string& then) {
    size_t at = 0;
    while (at < now.size() && at < then.size() && now[at] == then[at]) ++at;
    const size_t from = at > 12 ? at - 12 : 0;
    constexpr size_t bytes = 40;
    return format_text("renders {} from byte {} on, where the export rendered {}",
                       quote_part(now, from, bytes), from, quote_part(then, from, bytes));
}

std::optional<std::string> compare_ids(const std::vector<int32_t>& now,
                                       const std::vector<int32_t>& then) {
    if (now == then) return std::nullopt;
    const auto [ours, theirs] = std::ranges::mismatch(now, then);
    const auto shown = [](const auto& at, const auto& end) {
        return at == end ? std::string("no token") : concat("the token ", *at);
    };
    return format_text("token {} is {}, and was {} in the export", ours - now.begin(),
                       shown(ours, now.end()), shown(theirs, then.end()));
}

// Adds what is different about one row.
void compare_row(const ReferenceRow& row, size_t number, const FolderTexts& texts,
                 std::vector<TextDifference>& differences) {
    const auto add = [&](TextCause cause, const std::string& what) {
        differences.push_back({cause, format_text("row {} ({}): {}", number, row.shown(), what)});
    };
    const bool is_chat = row.messages.list() != nullptr;
    if (!is_chat && row.text.empty()) return;
    if (is_chat && !texts.has_template())
        return add(TextCause::chat_template, "the folder has no chat template, the export had one");
    if (is_chat) {
        const auto rendered = texts.render(*row.messages.list(), row.adds_generation_prompt);
        if (!rendered) return add(TextCause::chat_template, rendered.failure().message);
        if (rendered.value() != row.rendered)
            add(TextCause::chat_template, first_difference(rendered.value(), row.rendered));
    }
    const auto ids =
        texts.encode(is_chat ? row.rendered : row.text,
                     is_chat ? text::SpecialTokens::leave_out : text::SpecialTokens::add);
    if (!ids) return add(TextCause::tokenizer, ids.failure().message);
    if (const auto what = compare_ids(ids.value(), row.tokens)) add(TextCause::tokenizer, *what);
}

void compare_vocabulary(const References& references, const text::Tokenizer& tokenizer,
                        std::vector<TextDifference>& differences) {
    const auto now = hash_vocabulary(tokenizer, references.vocab_size, references.hashed_at_once);
    std::vector<std::string> ranges;
    for (size_t i = 0; i < now.size(); ++i) {
        if (i < references.vocabulary.size() && now[i] == references.vocabulary[i]) continue;
        const int64_t first = static_cast<int64_t>(i) * references.hashed_at_once;
        ranges.push_back(
            format_text("{} to {}", first,
                        std::min(references.vocab_size, first + references.hashed_at_once) - 1));
    }
    if (!ranges.empty())
        differences.push_back(
            {TextCause::tokenizer,
             format_text("other tokens than in the export have ids among {}", join(ranges, ", "))});
}

}  // namespace

std::string ReferenceRow::shown() const {
    if (messages.list() != nullptr) return "a conversation";
    constexpr size_t bytes = 24;
    return text.empty() ? "ids" : quote_part(text, 0, bytes);
}

std::vector<int64_t> places_of(int64_t num_tokens) {
    constexpr int64_t most = 16;
    const int64_t count = std::min(most, num_tokens);
    std::vector<int64_t> places;
    for (int64_t i = 1; i <= count; ++i) places.push_back(i * num_tokens / count - 1);
    return places;
}

References make_references(const std::filesystem::path& folder, int64_t vocabulary,
                           int64_t longest) {
    References references;
    if (const auto texts = FolderTexts::read(folder)) {
        const text::Tokenizer& tokenizer = texts.value().tokenizer();
        references.vocab_size = tokenizer.vocab_size();
        references.hashed_at_once = std::max<int64_t>(
            1, (references.vocab_size + hashes_of_vocabulary - 1) / hashes_of_vocabulary);
        references.vocabulary =
            hash_vocabulary(tokenizer, references.vocab_size, references.hashed_at_once);
        add_texts(texts.value(), references.rows);
    }
    // The model cannot compute with what its embedding does not have.
    std::erase_if(references.rows, [&](const ReferenceRow& row) {
        return row.tokens.empty() || std::ssize(row.tokens) > longest ||
               *std::ranges::max_element(row.tokens) >= vocabulary;
    });
    for (uint64_t number = 1; references.rows.size() < most_rows; ++number)
        references.rows.push_back(row_of_ids(number, vocabulary, longest));
    for (ReferenceRow& row : references.rows) row.places = places_of(std::ssize(row.tokens));
    return references;
}

std::vector<TextDifference> compare_texts(const References& references,
                                          const std::filesystem::path& folder) {
    if (references.vocab_size == 0) return {};
    const auto texts = FolderTexts::read(folder);
    if (!texts) return {{TextCause::tokenizer, texts.failure().message}};
    std::vector<TextDifference> differences;
    compare_vocabulary(references, texts.value().tokenizer(), differences);
    for (size_t number = 0; number < references.rows.size(); ++number)
        compare_row(references.rows[number], number, texts.value(), differences);
    return differences;
}

double largest_difference(const LikelyTokens& reference, const LikelyTokens& found) {
    double largest = 0;
    for (const LikelyToken& wanted : reference) {
        const auto same = std::ranges::find(found, wanted.token, &LikelyToken::token);
        double difference = 0;
        if (same != found.end())
            difference = std::abs(wanted.log_probability - same->log_probability);
        else if (!found.empty())
            difference = std::max(0.0, wanted.log_probability - found.back().log_probability);
        if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
        largest = std::max(largest, difference);
    }
    return largest;
}

}  // namespace ringshard::data
