#pragma once

#include "row_encoding.hpp"

namespace ringshard::data {

// The encoding of documents that are scored whole: one with its label, or a chosen and a rejected
// one.
class ScoredEncoding : public RowEncoding {
public:
    using RowEncoding::RowEncoding;
    std::optional<Failure> encode_labelled_text();
    // Encodes an anchor, a positive and negatives as documents, of which all tokens but padding are
    // labelled.
    std::optional<Failure> encode_texts();
    std::optional<Failure> encode_labelled_chat();
    std::optional<Failure> encode_pair();
    std::optional<Failure> encode_chat_pair();

private:
    std::optional<Failure> label_with_column();
    void label_from(size_t first, int32_t label);
    // Both documents have one label, since their scores are compared.
    template <class EncodeChosen, class EncodeRejected>
    std::optional<Failure> encode_sides(EncodeChosen encode_chosen, EncodeRejected encode_rejected);
};

}  // namespace ringshard::data
