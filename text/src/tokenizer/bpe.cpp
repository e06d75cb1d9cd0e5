#include "bpe.hpp"

#include <algorithm>

#include "ringshard/base/utf8.hpp"

namespace ringshard::text {

namespace {

// Printable bytes map to themselves, the others to characters from U+0100 on, in order.
struct Letters {
    std::array<char32_t, 256> of_byte{};
    std::array<int16_t, 0x144> of_letter{};
    Letters() {
        of_letter.fill(-1);
        char32_t next = 0x100;
        for (unsigned byte = 0; byte < 256; ++byte) {
            const bool printable =
                (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
            of_byte[byte] = printable ? byte : next++;
            of_letter[of_byte[byte]] = static_cast<int16_t>(byte);
        }
    }
};
const Letters& letters() {
    static const Letters table;
    return table;
}

bool is_set(const Json& model, std::string_view key) {
    const Json* value = find(model, key);
    return value != nullptr && (value->string() == nullptr || !value->string()->empty());
}

}  // namespace

char32_t letter_of_byte(unsigned char byte) { return letters().of_byte[byte]; }
int byte_of_letter(char32_t letter) {
    return letter < letters().of_letter.size() ? letters().of_letter[letter] : -1;
}

Bpe::Bpe(const Json& model, const Json& options, bool byte_level) {
    if (!is_object(model) || !is_object(options)) refuse("\"model\" is not an object");
    if (find(model, "type")) {
        const std::string kind = text_of(model, "type");
        if (kind != "BPE") refuse_kind("a model", kind);
    }
    if (const Json* dropout = find(options, "dropout")) {
        const bool is_off = (dropout->real() != nullptr && *dropout->real() == 0) ||
                            (dropout->integer() != nullptr && *dropout->integer() == 0);
        if (!is_off) refuse("\"dropout\" of the model is not supported: set it to null");
    }
    for (const char* const key : {"continuing_subword_prefix", "end_of_word_suffix"})
        if (is_set(options, key)) refuse(format_text("\"{}\" of the model is not supported", key));
    fuses_unknown_ = flag_of(options, "fuse_unk", false);
    byte_fallback_ = flag_of(options, "byte_fallback", false);
    ignore_merges_ = flag_of(options, "ignore_merges", false);
    read_vocabulary(model);
    if (find(options, "unk_token")) {
        unknown_token_ = text_of(options, "unk_token");
        has_unknown_ = true;
        unknown_id_ = vocabulary_.id_of(unknown_token_).value_or(absent);
    }
    find_special_ids(byte_level);
    read_merges(model);
}

Bpe::Bpe(std::span<const std::string> special, std::span<const std::string> bytes) {
    ignore_merges_ = true;
    size_t length = 0;
    for (const std::string& token : special) length += token.size();
    for (const std::string& token : bytes) length += 2 * token.size();
    vocabulary_.reserve(special.size() + bytes.size(), length);
    for (const std::string& token : bytes) {
        std::string letters;
        for (const char byte : token)
            append_code_point(letters, letter_of_byte(static_cast<unsigned char>(byte)));
        vocabulary_.add(letters, static_cast<uint32_t>(special.size() + (&token - bytes.data())));
    }
    for (const std::string& token : special)
        vocabulary_.add(token, static_cast<uint32_t>(&token - special.data()));
    vocabulary_.finish();
    find_special_ids(true);
    std::unordered_map<std::string_view, uint32_t> ranks(2 * bytes.size());
    for (uint32_t rank = 0; rank < bytes.size(); ++rank) ranks.emplace(bytes[rank], rank);
    add_merges(ranks, static_cast<uint32_t>(special.size()));
}

void Bpe::add_merges(const std::unordered_map<std::string_view, uint32_t>& ranks,
                     uint32_t first_id) {
    struct Pair {
        uint32_t left, right, rank;
    };
    std::vector<Pair> pairs;
    pairs.reserve(2 * ranks.size());
    for (const auto& [token, rank] : ranks)
        for (size_t end = 1; end < token.size(); ++end) {
            const auto left = ranks.find(token.substr(0, end));
            if (left == ranks.end()) continue;
            const auto right = ranks.find(token.substr(end));
            if (right != ranks.end()) pairs.push_back({left->second, right->second, rank});
        }
    merges_.reserve(pairs.size());
    for (const Pair& pair : pairs)
        merges_.add(first_id + pair.left, first_id + pair.right, {pair.rank, first_id + pair.rank});
}

void Bpe::read_vocabulary(const Json& model) {
    const Json::Object* vocab = get(model, "vocab").object();
    if (vocab == nullptr) refuse("\"vocab\" is not an object");
    size_t bytes = 0;
    for (const auto& [token, id] : *vocab) bytes += token.size();
    vocabulary_.reserve(vocab->size(), bytes);
    const auto greatest = static_cast<int64_t>(16 * vocab->size() + 1'000'000);
    for (const auto& [token, number] : *vocab) {
        const int64_t* id = number.integer();
        if (id == nullptr || *id < 0 || *id > greatest)
            refuse(format_text("the id of token \"{}\" is not a number from 0 to {}", token,
                               greatest));
        vocabulary_.add(token, static_cast<uint32_t>(*id));
    }
    vocabulary_.finish();
}

void Bpe::find_special_ids(bool byte_level) {
    has_all_bytes_ = byte_level;
    for (unsigned byte = 0; byte < 256; ++byte) {
        std::string letter;
        append_code_point(letter, letter_of_byte(static_cast<unsigned char>(byte)));
        byte_ids_[byte] = vocabulary_.id_of(letter).value_or(absent);
        has_all_bytes_ = has_all_bytes_ && byte_ids_[byte] != absent;
        char code[8];
        std::snprintf(code, sizeof code, "<0x%02X>", byte);
        fallback_ids_[byte] = vocabulary_.id_of(code).value_or(absent);
        if (byte < 128)
            ascii_ids_[byte] =
                vocabulary_.id_of(std::string(1, static_cast<char>(byte))).value_or(absent);
    }
    // read_merges() resets it if a merge crosses a space. Not with ignore_merges, which looks up
    // whole words; nor if encoding drops characters, which shifts spans to the end of the word.
    const bool drops =
        !has_unknown_ && !(byte_fallback_ && std::ranges::none_of(fallback_ids_, [](uint32_t id) {
                               return id == absent;
                           }));
    cuts_at_spaces_ =
        !byte_level && !ignore_merges_ && !drops && vocabulary_.id_of(space_sign).has_value();
}

void Bpe::read_merges(const Json& model) {
    const Json::List& list = list_of(model, "merges");
    merges_.reserve(list.size());
    uint32_t rank = 0;
    std::optional<bool> as_pairs;
    for (const Json& entry : list) {
        const Json::List* pair = entry.list();
        const bool is_pair = pair != nullptr;
        if (as_pairs.value_or(is_pair) != is_pair) refuse("\"merges\" has two kinds of entries");
        as_pairs = is_pair;
        std::string_view left, right;
        if (is_pair) {
            if (pair->size() != 2 || pair->front().string() == nullptr ||
                pair->back().string() == nullptr)
                refuse(format_text("entry {} of \"merges\" is not a pair of tokens", rank));
            left = *pair->front().string();
            right = *pair->back().string();
        } else {
            if (entry.string() == nullptr)
                refuse(format_text("entry {} of \"merges\" is not a pair of tokens", rank));
            const std::string_view both = *entry.string();
            if (both.starts_with("#version")) continue;
            const size_t space = both.find(' ');
            if (space == std::string_view::npos ||
                both.find(' ', space + 1) != std::string_view::npos)
                refuse(format_text(
                    "entry {} of \"merges\", \"{}\", is not two tokens with a space between", rank,
                    both));
            left = both.substr(0, space);
            right = both.substr(space + 1);
        }
        add_merge(left, right, rank++);
    }
}

void Bpe::add_merge(std::string_view left, std::string_view right, uint32_t rank) {
    const auto id = [&](std::string_view token) {
        const auto found = vocabulary_.id_of(token);
        if (!found)
            refuse(format_text(
                "entry {} of \"merges\" needs the token \"{}\", which is not in the vocabulary",
                rank, token));
        return *found;
    };
    merges_.add(id(left), id(right), {rank, id(std::string(left).append(right))});
    if (!left.ends_with(space_sign) && right.starts_with(space_sign)) cuts_at_spaces_ = false;
}

void Bpe::encode_bytes(std::string_view word, Buffers& buffers) const {
    std::vector<Symbol>& symbols = buffers.symbols;
    symbols.clear();
    if (ignore_merges_) {
        buffers.letters.clear();
        for (const char byte : word)
            append_code_point(buffers.letters, letter_of_byte(static_cast<unsigned char>(byte)));
        if (const auto id = vocabulary_.id_of(buffers.letters)) {
            symbols.push_back({*id, static_cast<uint32_t>(word.size())});
            return;
        }
    }
    for (const char byte : word)
        symbols.push_back({byte_ids_[static_cast<unsigned char>(byte)], 1});
    merge_symbols(merges_, buffers);
}

bool Bpe::falls_back(std::string_view character, std::vector<Symbol>& symbols) const {
    if (!byte_fallback_) return false;
    for (const char byte : character)
        if (fallback_ids_[static_cast<unsigned char>(byte)] == absent) return false;
    for (const char byte : character)
        symbols.push_back({fallback_ids_[static_cast<unsigned char>(byte)], 1});
    return true;
}

void Bpe::encode_characters(std::string_view word, Buffers& buffers) const {
    std::vector<Symbol>& symbols = buffers.symbols;
    symbols.clear();
    if (ignore_merges_)
        if (const auto id = vocabulary_.id_of(word)) {
            symbols.push_back({*id, static_cast<uint32_t>(word.size())});
            return;
        }
    // An unknown character waits for the next known one, while bytes overtake it, as in the
    // `tokenizers` package.
    uint32_t unknown_length = 0;
    const auto flush = [&] {
        if (unknown_length > 0) symbols.push_back({unknown_id_, unknown_length});
        unknown_length = 0;
    };
    for (size_t place = 0; place < word.size();) {
        const unsigned length = code_point_length(word[place]);
        const std::string_view character = word.substr(place, length);
        place += length;
        const uint32_t id = length == 1 ? ascii_ids_[static_cast<unsigned char>(character[0])]
                                        : vocabulary_.id_of(character).value_or(absent);
        if (id != absent) {
            flush();
            symbols.push_back({id, length});
        } else if (!falls_back(character, symbols) && has_unknown_) {
            if (unknown_id_ == absent)
                refuse(
                    format_text("\"unk_token\" \"{}\" is not in the vocabulary", unknown_token_));
            if (!fuses_unknown_) flush();
            unknown_length += length;
        }
    }
    flush();
    merge_symbols(merges_, buffers);
}

}  // namespace ringshard::text
