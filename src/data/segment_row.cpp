#include "segment_row.hpp"

#include <algorithm>

#include "ringshard/data/token_store.hpp"
#include "row_columns.hpp"

namespace ringshard::data {

using text::SpecialTokens;
using text::Value;

namespace {

std::optional<bool> truth_of(const Value& value) {
    if (value.truth() != nullptr) return *value.truth();
    const std::string* text = value.string();
    const std::string word = text != nullptr ? lower_case(*text) : "";
    if (word == "true" || word == "false") return word == "true";
    return std::nullopt;
}

bool is_true(const Value& object, const char* name) {
    const Value* value = object.find(name);
    return value != nullptr && truth_of(*value).value_or(false);
}

// Tokenizes with the tokens that the tokenizer puts before a text, and without those after it.
std::optional<Failure> tokenize_segment(const TokenizeText& tokenize, const std::string& text,
                                        bool adds_special, std::vector<int32_t>& ids) {
    if (auto failure = tokenize(text, SpecialTokens::leave_out, ids)) return failure;
    if (!adds_special) return std::nullopt;
    const std::vector<int32_t> plain = ids;
    if (auto failure = tokenize(text, SpecialTokens::add, ids)) return failure;
    const auto found = std::ranges::search(ids, plain);
    ids.erase(found.end(), ids.end());
    return std::nullopt;
}

// Adds the tokens of a segment; joined with those before it, they replace all of them, and the
// segment is what is longer than before.
void add_segment(const std::vector<int32_t>& tokens, bool is_joined, bool is_learned,
                 EncodedRow& into) {
    if (is_joined)
        into.tokens = tokens;
    else
        into.tokens.insert(into.tokens.end(), tokens.begin(), tokens.end());
    const size_t begin = std::min(into.labels.size(), into.tokens.size());
    into.labels.resize(into.tokens.size(), no_label);
    for (size_t i = 0; i < into.tokens.size(); ++i)
        if (i >= begin ? is_learned : into.labels[i] != no_label) into.labels[i] = into.tokens[i];
}

}  // namespace

std::optional<Failure> encode_segments(const Value& row, const TokenizeText& tokenize,
                                       EncodedRow& into) {
    const Value* column = row.find("segments");
    if (column == nullptr || column->list() == nullptr || column->list()->empty())
        return bad_row("segments is no list of objects with text and label");
    into.tokens.clear();
    into.labels.clear();
    const bool is_joined = is_true(row, "joined");
    std::string before;
    std::vector<int32_t> ids;
    for (const Value& segment : *column->list()) {
        std::string text;
        if (segment.object() == nullptr) return bad_row("a segment is no object");
        if (auto failure = read_text(segment, "text", text)) return failure;
        const Value* label = segment.find("label");
        const auto is_learned = label != nullptr ? truth_of(*label) : std::nullopt;
        if (!is_learned)
            return bad_row("a segment has no label, which is true for text that is learned");
        before = is_joined ? before + text : text;
        const bool adds_special = is_joined || is_true(segment, "special_tokens");
        if (auto failure = tokenize_segment(tokenize, before, adds_special, ids)) return failure;
        add_segment(ids, is_joined, *is_learned, into);
    }
    return std::nullopt;
}

}  // namespace ringshard::data
