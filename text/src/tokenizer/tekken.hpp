#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ringshard/text/value.hpp"

namespace ringshard::text {

// A tekken.json: Mistral's file of a byte-level BPE, as mistral_common reads it. A special token's
// id is its rank; the other ids follow, in the order of their ranks.
struct Tekken {
    std::vector<std::string> special;  // by id, with fillers for ids without a name
    std::vector<std::string> bytes;    // of the other tokens, by rank
    std::string pattern;               // cuts a text into words
    std::string version;               // such as v13
};

// Returns true for a tekken.json, whose keys a tokenizer.json has not.
bool is_tekken(const Value& file);
// Throws an Error that names the place in the file.
Tekken read_tekken(const Value& file);

// The names under which a chat template asks for special tokens, such as "bos_token" and "<s>".
std::vector<std::pair<std::string, std::string>> named_tokens(const Tekken& tekken);

}  // namespace ringshard::text
