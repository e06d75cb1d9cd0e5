#pragma once

#include "ringshard/config/training_settings.hpp"

namespace ringshard::data {

// What a row of the data is to a run.
struct RowContent {
    bool is_pair = false;  // a chosen and a rejected document; else one document, or packed ones
    // The prompt of a chosen document is learned, too. Its targets have the weight 0, since they do
    // not count for the answer.
    bool learns_prompts = false;
    // Every token of a document that counts, which padding does not, has the label of the document,
    // and the last of them is its only target. Else the target of a token is the next one.
    bool is_scored = false;
    // The documents of a row are an anchor, a positive and any number of negatives, which are
    // embedded. The targets of a document are the tokens that make its embedding.
    bool is_embedded = false;
    config::Pooling pooling = config::Pooling::lasttoken;
    // The label of a scored document is a number, which its target has as its weight.
    bool has_numbers = false;
    // A document is an answer that is desirable or not: its targets have the weight 1, or -1.
    bool is_judged = false;
    // Such answers stand behind the prompts of other rows, and are not learned: their
    // log-probabilities are the baseline of the others.
    bool is_baseline = false;

    // Returns true if a row has several documents, each of which max_length cuts.
    bool has_documents() const { return is_pair || is_embedded; }
    // Returns true for pairs of scored documents: the target of the chosen one has 1 + the margin
    // of the pair as its weight.
    bool has_margins() const { return is_scored && is_pair; }
    // Returns true if the weights of targets say what they are, and not how much they count.
    bool weighs_by_label() const { return has_numbers || is_judged || has_margins(); }
    // Returns true if the log-probability of an answer matters, not those of its tokens.
    bool has_answers() const { return is_pair || is_judged; }

    bool operator==(const RowContent&) const = default;
};

}  // namespace ringshard::data
