#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/text/value.hpp"

// verify.json beside a model: a few rows with the most likely tokens behind some of their places,
// so that a reader of the folder, or a server, can be compared with what was exported.
namespace ringshard::data {

struct LikelyToken {
    int32_t token;
    double log_probability;
};
using LikelyTokens = std::vector<LikelyToken>;  // the most likely first
using LikelyOfPlaces = std::vector<LikelyTokens>;

// A row has a text, or messages, or neither: then it is ids alone.
struct ReferenceRow {
    std::string text{};
    text::Value messages{};  // a list, or null
    bool adds_generation_prompt = false;
    std::string rendered{};  // the messages, by the chat template
    std::vector<int32_t> tokens{};
    std::vector<int64_t> places{};  // of the tokens after which others are likely
    LikelyOfPlaces likely{};        // of each place

    std::string shown() const;  // what the row is, for messages
};

struct References {
    static constexpr const char* file_name = "verify.json";
    static constexpr int64_t most_likely = 8;  // tokens of a place

    std::string weights{};   // the type in which the model held its weights
    std::string computed{};  // and that in which it computed
    bool is_exact = false;   // the folder's weights give these numbers but for the order of sums
    bool is_tied = false;    // the head is the embedding
    int64_t vocab_size = 0;  // tokens of the tokenizer
    int64_t hashed_at_once = 0;
    std::vector<std::string> vocabulary{};  // hashes of so many tokens each, by id
    std::vector<ReferenceRow> rows{};
    // What the first rows would have if a known mistake had been made.
    struct Mistake {
        std::string name;
        std::vector<LikelyOfPlaces> likely;
    };
    std::vector<Mistake> mistakes{};

    std::string to_json() const;
    static Expected<References> parse(std::string_view json, const std::string& name);
    // Fails (66) if the folder has no such file.
    static Expected<References> read(const std::filesystem::path& folder);
};

// Makes the rows for a model: texts and conversations as far as the tokenizer in `folder` and its
// chat template take them, and else ids. vocabulary: rows of the embedding; longest: most tokens
// that a row may have. Likely tokens are left to be filled in.
References make_references(const std::filesystem::path& folder, int64_t vocabulary,
                           int64_t longest);

enum class TextCause { tokenizer, chat_template };
struct TextDifference {
    TextCause cause;
    std::string what;
};
// Compares tokenizer and chat template of the folder with those of the references.
std::vector<TextDifference> compare_texts(const References& references,
                                          const std::filesystem::path& folder);

// Returns the largest difference of log-probabilities. A token that was not found is at most as
// likely as the last one that was.
double largest_difference(const LikelyTokens& reference, const LikelyTokens& found);

// Up to 16 places of a row of so many tokens, the last one among them.
std::vector<int64_t> places_of(int64_t num_tokens);

}  // namespace ringshard::data
