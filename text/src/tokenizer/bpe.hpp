#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "json_reader.hpp"
#include "vocabulary.hpp"

namespace ringshard::text {

// SentencePiece's sign for a space: U+2581.
constexpr std::string_view space_sign = "\xE2\x96\x81";

// A token within a word, and the number of the word's bytes that it covers.
struct Symbol {
    uint32_t id;
    uint32_t length;
};

// Byte-pair encoding: the vocabulary and the merges by rank.
class Bpe {
public:
    // `options`: the model, or a replacement of all but its vocabulary and merges. `byte_level`:
    // words are bytes, and the vocabulary has a letter for each byte.
    Bpe(const Json& model, const Json& options, bool byte_level);
    // Of tokens whose rank is also the rank of every merge that makes them, as in tiktoken.
    // `special`: the tokens that take the first ids. `bytes`: the others, by rank.
    Bpe(std::span<const std::string> special, std::span<const std::string> bytes);

    const Vocabulary& vocabulary() const { return vocabulary_; }

    // Returns true if every byte is in the vocabulary. Then a word is a sequence of bytes without
    // unknown ones, and a token has one byte per letter.
    bool has_all_bytes() const { return has_all_bytes_; }

    // Returns true if a word may be split before each U+2581 that follows another character: no
    // merge crosses it, so the pieces have the same tokens.
    bool cuts_at_spaces() const { return cuts_at_spaces_; }

    // Buffers of one thread.
    struct Buffers {
        std::vector<Symbol> symbols;
        std::vector<uint32_t> ranks, merged, previous, next;
        std::vector<uint64_t> queue;
        std::string letters;
    };

    // Write the tokens of a word to buffers.symbols.
    void encode_bytes(std::string_view word, Buffers& buffers) const;       // if has_all_bytes()
    void encode_characters(std::string_view word, Buffers& buffers) const;  // otherwise

private:
    void read_vocabulary(const Json& model);
    void read_merges(const Json& model);
    void add_merges(const std::unordered_map<std::string_view, uint32_t>& ranks, uint32_t first_id);
    void add_merge(std::string_view left, std::string_view right, uint32_t rank);
    void find_special_ids(bool byte_level);
    bool falls_back(std::string_view character, std::vector<Symbol>& symbols) const;

    Vocabulary vocabulary_;
    Merges merges_;
    std::array<uint32_t, 256> byte_ids_{};      // byte-level letters
    std::array<uint32_t, 256> fallback_ids_{};  // <0x41>; or `absent`
    std::array<uint32_t, 128> ascii_ids_{};
    static constexpr uint32_t absent = ~uint32_t{0};
    std::string unknown_token_;
    uint32_t unknown_id_ = absent;
    bool has_unknown_ = false;
    bool fuses_unknown_ = false;
    bool byte_fallback_ = false;
    bool ignore_merges_ = false;
    bool has_all_bytes_ = false;
    bool cuts_at_spaces_ = false;
};

// Returns the letter of a byte in byte-level vocabularies.
char32_t letter_of_byte(unsigned char byte);
// Returns the byte of a letter, or -1.
int byte_of_letter(char32_t letter);

// Merges the symbols of a word: always the pair of lowest rank, the leftmost among equals.
void merge_symbols(const Merges& merges, Bpe::Buffers& buffers);

}  // namespace ringshard::text
