#include "added_vocabulary.hpp"

#include <algorithm>

#include "unicode/tokenizers_characters.hpp"

namespace ringshard::text {

namespace {

// Return the character bits before and at a byte offset.
uint8_t bits_before(std::string_view text, size_t place) {
    return place == 0 ? 0
                      : character_table()[code_point_at(&text[code_point_start(text, place - 1)])];
}
uint8_t bits_at(std::string_view text, size_t place) {
    return place == text.size() ? 0 : character_table()[code_point_at(&text[place])];
}

size_t before_white(std::string_view text, size_t place, size_t least) {
    while (place > least && (bits_before(text, place) & is_white) != 0)
        place = code_point_start(text, place - 1);
    return std::max(place, least);
}
size_t behind_white(std::string_view text, size_t place) {
    while (place < text.size() && (bits_at(text, place) & is_white) != 0)
        place += code_point_length(text[place]);
    return place;
}

}  // namespace

void AddedVocabulary::add(std::span<const AddedToken> tokens, const Vocabulary& model,
                          const Normalizer& normalizer) {
    const auto model_size = static_cast<uint32_t>(model.size());
    uint32_t next_id = model_size;
    if (!by_id_.empty() && (by_id_.rbegin()->first >= model_size || model_size == 0))
        next_id = by_id_.rbegin()->first + 1;
    for (const AddedToken& token : tokens) {
        if (token.content.empty()) continue;
        const auto known = id_of(token.content);
        if (known && by_id_.at(*known) == token) continue;
        const auto in_model = known ? known : model.id_of(token.content);
        const uint32_t id = in_model ? *in_model : next_id++;
        if (token.normalized) {
            const std::string written = normalizer.apply(token.content);
            if (written != token.content) normalized_[id] = written;
        }
        ids_[token.content] = id;
        if (token.special) special_.insert(token.content);
        by_id_[id] = token;
    }
    rebuild();
}

void AddedVocabulary::rebuild() {
    std::vector<TokenSearch::Pattern> raw, normalized;
    for (const auto& [id, token] : by_id_) {
        if (token.normalized)
            normalized.push_back({*written(id), id});
        else
            raw.push_back({token.content, id});
    }
    for (auto* const patterns : {&raw, &normalized}) {
        std::ranges::sort(*patterns, {}, &TokenSearch::Pattern::text);
        const auto same = std::ranges::adjacent_find(*patterns, {}, &TokenSearch::Pattern::text);
        if (same != patterns->end())
            refuse(format_text("two added tokens are both looked for as \"{}\"", same->text));
        if (!patterns->empty() && patterns->front().text.empty())
            refuse(format_text("nothing is left of an added token when it is normalized: \"{}\"",
                               by_id_.at(patterns->front().id).content));
    }
    raw_search_ = TokenSearch(std::move(raw));
    normalized_search_ = TokenSearch(std::move(normalized));
}

std::optional<uint32_t> AddedVocabulary::id_of(std::string_view token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
}

const AddedToken* AddedVocabulary::token_of(uint32_t id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : &found->second;
}

const std::string* AddedVocabulary::written(uint32_t id) const {
    const AddedToken* const token = token_of(id);
    if (token == nullptr) return nullptr;
    const auto found = normalized_.find(id);
    return found == normalized_.end() ? &token->content : &found->second;
}

size_t AddedVocabulary::num_outside(const Vocabulary& model) const {
    return static_cast<size_t>(
        std::ranges::count_if(ids_, [&](const auto& entry) { return !model.id_of(entry.first); }));
}

void AddedVocabulary::split(std::string_view text, Stage stage, std::vector<Part>& parts) const {
    const TokenSearch& search = stage == Stage::raw ? raw_search_ : normalized_search_;
    size_t done = 0;
    TokenSearch::Found found{};
    for (size_t from = 0; search.find(text, from, found);) {
        from = found.last;
        const AddedToken& token = by_id_.at(found.id);
        if (token.single_word && ((bits_before(text, found.first) & is_word) != 0 ||
                                  (bits_at(text, found.last) & is_word) != 0))
            continue;
        size_t first = found.first;
        if (token.lstrip) first = before_white(text, first, done);
        const size_t last = token.rstrip ? behind_white(text, found.last) : found.last;
        if (done < first) parts.push_back({done, first, -1});
        parts.push_back({first, last, found.id});
        done = last;
    }
    if (done != text.size()) parts.push_back({done, text.size(), -1});
}

}  // namespace ringshard::text
