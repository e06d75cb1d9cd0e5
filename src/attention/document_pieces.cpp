#include "document_pieces.hpp"

#include <algorithm>

#include "ringshard/base/error.hpp"

namespace ringshard::attention {

std::vector<Piece> cut_by_documents(const Layout& layout,
                                    std::span<const int64_t> document_starts) {
    std::vector<Piece> pieces;
    size_t document = 0;
    int64_t offset = 0;
    int64_t end_before = 0;
    for (const Run& run : layout) {
        RINGSHARD_CHECK(run.start >= end_before, "runs do not ascend");
        const int64_t end = run.start + run.length;
        for (int64_t at = run.start; at < end;) {
            while (document + 1 < document_starts.size() && document_starts[document + 1] <= at)
                ++document;
            const bool is_last = document + 1 == document_starts.size();
            const int64_t until = is_last ? end : std::min(end, document_starts[document + 1]);
            pieces.push_back({document, at, until - at, offset});
            offset += until - at;
            at = until;
        }
        end_before = end;
    }
    return pieces;
}

}  // namespace ringshard::attention
