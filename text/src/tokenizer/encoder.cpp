#include "encoder.hpp"

#include <algorithm>

#include "unicode/tokenizers_characters.hpp"

namespace ringshard::text {

namespace {

constexpr std::string_view byte_space = "\xC4\xA0";  // letter of the space in byte-level tokens

bool is_space(std::string_view character) {
    return character == byte_space ||
           (character_table()[code_point_at(character.data())] & is_white) != 0;
}

Ends ends_of(std::string_view token) {
    Ends ends{0, 0};
    for (size_t place = 0; place < token.size(); ++ends.leading) {
        const unsigned length = code_point_length(token[place]);
        if (!is_space(token.substr(place, length))) break;
        place += length;
    }
    for (size_t end = token.size(); end > 0; ++ends.trailing) {
        const size_t start = code_point_start(token, end - 1);
        if (!is_space(token.substr(start, end - start))) break;
        end = start;
    }
    return ends;
}

// Returns the end of the next word of a text whose spaces are U+2581: signs, then other characters.
size_t end_of_piece(std::string_view text, size_t from) {
    while (text.substr(from).starts_with(space_sign)) from += space_sign.size();
    return std::min(text.find(space_sign, from), text.size());
}

}  // namespace

void Encoder::encode(std::string_view text) {
    const size_t first = ids_.size();
    state_.ends.clear();
    std::vector<AddedVocabulary::Part>& parts = state_.raw_parts;
    parts.clear();
    parts_.added.split(text, AddedVocabulary::Stage::raw, parts);
    const Passage whole{text};
    for (const AddedVocabulary::Part& part : parts) {
        if (part.id >= 0)
            add_token(whole, part);
        else
            encode_raw(whole.part(part.first, part.last));
    }
    if (wants_spans()) trim_spans(text, first);
}

void Encoder::add_token(const Passage& passage, const AddedVocabulary::Part& part) {
    ids_.push_back(static_cast<int32_t>(part.id));
    if (!wants_spans()) return;
    spans_->push_back(passage.origin(part.first, part.last));
    if (!parts_.post_processor.trimmings.empty())
        state_.ends.push_back(ends_of(passage.text.substr(part.first, part.last - part.first)));
}

void Encoder::encode_raw(const Passage& passage) {
    const bool track = wants_spans() || parts_.pre_tokenizer.needs_origins();
    const Passage normalized = parts_.normalizer.apply(passage, state_.normalized, track);
    std::vector<AddedVocabulary::Part>& parts = state_.normalized_parts;
    parts.clear();
    parts_.added.split(normalized.text, AddedVocabulary::Stage::normalized, parts);
    for (const AddedVocabulary::Part& part : parts) {
        if (part.id >= 0)
            add_token(normalized, part);
        else
            encode_normalized(normalized.part(part.first, part.last));
    }
}

void Encoder::encode_normalized(const Passage& passage) {
    Words& words = state_.words;
    parts_.pre_tokenizer.apply(passage, words, wants_spans());
    const std::string_view text = words.passage.text;
    const char* const end = text.data() + text.size();
    const bool as_bytes = parts_.model.has_all_bytes();
    for (const Cut cut : words.cuts) {
        if (as_bytes && !wants_spans()) {
            encode_bytes(text.substr(cut.first, cut.last - cut.first), end);
            continue;
        }
        const Passage word = words.passage.part(cut.first, cut.last);
        if (as_bytes) {
            parts_.model.encode_bytes(word.text, state_.buffers);
            put_symbols(word);
        } else if (parts_.pre_tokenizer.is_byte_level()) {
            encode_letters(word);
        } else {
            encode_characters(word);
        }
    }
}

void Encoder::encode_bytes(std::string_view word, const char* end) {
    if (word.size() > WordCache::longest) {
        parts_.model.encode_bytes(word, state_.buffers);
        put_symbols();
        return;
    }
    const WordCache::Key key = WordCache::key_of(word, end);
    if (const auto known = state_.cache.find(key); !known.empty()) {
        ids_.insert(ids_.end(), known.begin(), known.end());
        return;
    }
    const size_t first = ids_.size();
    parts_.model.encode_bytes(word, state_.buffers);
    put_symbols();
    state_.cache.put(key, std::span(ids_).subspan(first));
}

// Spells the word in letters, for a byte-level vocabulary that lacks some bytes.
void Encoder::encode_letters(const Passage& word) {
    TrackedText& letters = state_.letters;
    letters.clear();
    for (size_t byte = 0; byte < word.text.size(); ++byte) {
        char letter[4];
        const unsigned length =
            write_code_point(letter_of_byte(static_cast<unsigned char>(word.text[byte])), letter);
        append(letters, {letter, length}, wants_spans() ? word.origin(byte) : Span{},
               wants_spans());
    }
    parts_.model.encode_characters(letters.text, state_.buffers);
    if (wants_spans())
        put_symbols(Passage::of(letters));
    else
        put_symbols();
}

void Encoder::encode_characters(const Passage& word) {
    const char* const end = word.text.data() + word.text.size();
    if (!parts_.model.cuts_at_spaces()) return encode_piece(word, end);
    for (size_t first = 0; first < word.text.size();) {
        const size_t last = end_of_piece(word.text, first);
        encode_piece(word.part(first, last), end);
        first = last;
    }
}

void Encoder::encode_piece(const Passage& piece, const char* end) {
    if (wants_spans()) {
        parts_.model.encode_characters(piece.text, state_.buffers);
        return put_symbols(piece);
    }
    const bool keeps = piece.text.size() <= WordCache::longest;
    const WordCache::Key key = keeps ? WordCache::key_of(piece.text, end) : WordCache::Key{};
    if (keeps) {
        if (const auto known = state_.cache.find(key); !known.empty()) {
            ids_.insert(ids_.end(), known.begin(), known.end());
            return;
        }
    }
    const size_t first = ids_.size();
    parts_.model.encode_characters(piece.text, state_.buffers);
    put_symbols();
    if (keeps) state_.cache.put(key, std::span(ids_).subspan(first));
}

void Encoder::put_symbols() {
    for (const Symbol& symbol : state_.buffers.symbols)
        ids_.push_back(static_cast<int32_t>(symbol.id));
}

void Encoder::put_symbols(const Passage& word) {
    const bool trims = !parts_.post_processor.trimmings.empty();
    size_t place = 0;
    for (const Symbol& symbol : state_.buffers.symbols) {
        ids_.push_back(static_cast<int32_t>(symbol.id));
        spans_->push_back(word.origin(place, place + symbol.length));
        place += symbol.length;
        if (trims) state_.ends.push_back(ends_of(*parts_.model.vocabulary().token_of(symbol.id)));
    }
}

// Trims spans like ByteLevel's post-processor: removes the white space at both ends of the token.
// Counts in characters of the input.
void Encoder::trim_spans(std::string_view text, size_t first) {
    const size_t begin = spans_->size() - (ids_.size() - first);
    for (const PostProcessor::Trimming& trimming : parts_.post_processor.trimmings) {
        for (size_t i = 0; i < state_.ends.size(); ++i) {
            Span& span = (*spans_)[begin + i];
            const Ends ends = state_.ends[i];
            uint32_t leading = ends.leading;
            // A single space before the first word may be the added one.
            if (trimming.add_prefix_space && leading == 1 && (i == 0 || span.first == 0))
                leading = 0;
            for (; leading > 0 && span.first < span.last; --leading)
                span.first += code_point_length(text[span.first]);
            uint32_t end = span.last;
            uint32_t trailing = ends.trailing;
            for (; trailing > 0 && end > 0; --trailing)
                end = static_cast<uint32_t>(code_point_start(text, end - 1));
            if (trailing == 0) span.last = std::max(end, span.first);
        }
    }
}

}  // namespace ringshard::text
