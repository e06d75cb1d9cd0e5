#pragma once

#include "row_encoding.hpp"

namespace ringshard::data {

// The encoding of a chosen and a rejected answer as two documents.
class PairEncoding : public RowEncoding {
public:
    using RowEncoding::RowEncoding;
    std::optional<Failure> encode_pair();
    std::optional<Failure> encode_chat_pair();

private:
    // Encodes two documents, one behind the other. Both answers begin where one of them does not go
    // on like the prompt alone, as in TRL.
    template <class EncodeChosen, class EncodeRejected>
    std::optional<Failure> encode_sides(EncodeChosen encode_chosen, EncodeRejected encode_rejected);
};

}  // namespace ringshard::data
