#pragma once

#include <memory>
#include <vector>

#include "json_reader.hpp"
#include "passage.hpp"

namespace ringshard::text {

// A text that is being cut into words.
struct Words {
    Passage passage;
    std::vector<Cut> cuts;
    std::vector<Cut> next_cuts;  // what a step makes of them
    std::vector<Cut> matches;    // what a step finds
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

    // Cuts a passage of the normalized text into words.
    void apply(const Passage& passage, Words& words, bool track) const;

    // Whether the words are bytes for a byte-level vocabulary: then this was the last step.
    bool is_byte_level() const { return byte_level_; }
    // Whether a step asks where the text stood in the input.
    bool needs_origins() const { return needs_origins_; }

private:
    void add(const Json& pre_tokenizer);
    std::vector<std::unique_ptr<PreTokenizerStep>> steps_;
    bool byte_level_ = false;
    bool needs_origins_ = false;
};

}  // namespace ringshard::text
