#pragma once

#include "added_vocabulary.hpp"
#include "bpe.hpp"
#include "decoder.hpp"
#include "normalizer.hpp"
#include "post_processor.hpp"
#include "pre_tokenizer.hpp"
#include "ringshard/text/tokenizer.hpp"
#include "tekken.hpp"
#include "word_cache.hpp"

namespace ringshard::text {

// The parts of a tokenizer.json or a tekken.json.
struct Tokenizer::Parts {
    Parts(const Json& file, const Json& replacement);
    explicit Parts(const Tekken& tekken);

    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    Bpe model;
    PostProcessor post_processor;
    Decoder decoder;
    AddedVocabulary added;
};

// White space at the ends of a token's text, in characters.
struct Ends {
    uint32_t leading;
    uint32_t trailing;
};

struct Tokenizer::Scratch::State {
    explicit State(size_t cached_words) : cache(cached_words) {}

    TurnTaking normalized;
    Words words;
    TrackedText letters;
    Bpe::Buffers buffers;
    WordCache cache;
    std::vector<AddedVocabulary::Part> raw_parts, normalized_parts;
    std::vector<Ends> ends;
};

// Encodes one text with the parts of a tokenizer.
class Encoder {
public:
    using Parts = Tokenizer::Parts;
    using State = Tokenizer::Scratch::State;
    Encoder(const Parts& parts, State& state, std::vector<int32_t>& ids, std::vector<Span>* spans)
        : parts_(parts), state_(state), ids_(ids), spans_(spans) {}

    void encode(std::string_view text);

private:
    void add_token(const Passage& passage, const AddedVocabulary::Part& part);
    void encode_raw(const Passage& passage);         // between tokens of the raw text
    void encode_normalized(const Passage& passage);  // between tokens of the normalized text
    void encode_bytes(std::string_view word, const char* end);
    void encode_letters(const Passage& word);
    void encode_characters(const Passage& word);
    void encode_piece(const Passage& piece, const char* end);
    void put_symbols();
    void put_symbols(const Passage& word);
    void trim_spans(std::string_view text, size_t first);

    bool wants_spans() const { return spans_ != nullptr; }

    const Parts& parts_;
    State& state_;
    std::vector<int32_t>& ids_;
    std::vector<Span>* spans_;
};

}  // namespace ringshard::text
