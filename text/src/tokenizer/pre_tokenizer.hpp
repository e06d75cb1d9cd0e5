#pragma once

#include <memory>
#include <vector>

#include "json_reader.hpp"
#include "passage.hpp"

namespace ringshard::text {

// A text and its words so far.
struct Words {
    Passage passage;
    std::vector<Cut> cuts;
    std::vector<Cut> next_cuts;  // output of the current step
    std::vector<Cut> matches;    // of the current step
    TurnTaking texts;
};

class PreTokenizerStep {
public:
    virtual ~PreTokenizerStep() = default;
    virtual void apply(Words& words, bool track) const = 0;
};

class PreTokenizer {
public:
    PreTokenizer() = default;
    explicit PreTokenizer(const Json& pre_tokenizer);

    // Splits a passage of the normalized text into words.
    void apply(const Passage& passage, Words& words, bool track) const;

    // Returns true if the words are bytes for a byte-level vocabulary; no step may follow.
    bool is_byte_level() const { return byte_level_; }
    // Returns true if a step needs the position of the text in the input.
    bool needs_origins() const { return needs_origins_; }

private:
    void add(const Json& pre_tokenizer);
    std::vector<std::unique_ptr<PreTokenizerStep>> steps_;
    bool byte_level_ = false;
    bool needs_origins_ = false;
};

}  // namespace ringshard::text
