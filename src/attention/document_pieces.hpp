#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ringshard/attention/sequence_partition.hpp"

namespace ringshard::attention {

// The part of a run that lies in one document.
struct Piece {
    size_t document;
    int64_t start;  // in the uncut list
    int64_t length;
    int64_t offset;  // in the tokens of this rank
};

// A layout cut where documents begin, in its order: so the pieces of a document are neighbours.
// Linear in runs and documents.
std::vector<Piece> cut_by_documents(const Layout& layout, std::span<const int64_t> document_starts);

}  // namespace ringshard::attention
