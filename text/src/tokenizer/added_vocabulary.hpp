#pragma once

#include <map>
#include <set>
#include <span>
#include <unordered_map>

#include "bpe.hpp"
#include "normalizer.hpp"
#include "ringshard/text/tokenizer.hpp"
#include "token_search.hpp"

namespace ringshard::text {

// The tokens beside the model's vocabulary.
class AddedVocabulary {
public:
    void add(std::span<const AddedToken> tokens, const Vocabulary& model,
             const Normalizer& normalizer);

    std::optional<uint32_t> id_of(std::string_view token) const;
    const AddedToken* token_of(uint32_t id) const;
    // Returns the text that decode() writes: the normalized form.
    const std::string* written(uint32_t id) const;
    bool is_special(std::string_view content) const { return special_.contains(content); }
    size_t num_outside(const Vocabulary& model) const;
    const std::map<uint32_t, AddedToken>& by_id() const { return by_id_; }

    // A part of a text: an added token, or the text between two of them.
    struct Part {
        size_t first;
        size_t last;
        int64_t id;  // -1: text, not a token
    };
    enum class Stage { raw, normalized };
    void split(std::string_view text, Stage stage, std::vector<Part>& parts) const;

private:
    void rebuild();

    std::map<std::string, uint32_t, std::less<>> ids_;
    std::map<uint32_t, AddedToken> by_id_;
    std::map<uint32_t, std::string> normalized_;  // if it differs from the content
    std::set<std::string, std::less<>> special_;
    TokenSearch raw_search_, normalized_search_;
};

}  // namespace ringshard::text
