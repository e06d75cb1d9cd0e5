#include "ringshard/attention/chain.hpp"

#include <algorithm>
#include <map>

#include "document_pieces.hpp"

namespace ringshard::attention {

namespace {

// A stretch of a document, wherever it lies.
struct Part {
    Piece piece;
    int64_t rank;
    size_t stretch;  // of its rank
    int64_t slot;    // of all ranks
};
using Document = std::vector<Part>;  // in the order of its tokens

// A document's tokens on one rank that follow each other are one piece.
std::vector<Document> documents_of(const SequencePartition& partition) {
    std::map<size_t, Document> documents;
    for (int64_t rank = 0; rank < partition.ring(); ++rank) {
        const auto pieces =
            cut_by_documents(partition.of_ring_rank(rank), partition.document_starts());
        for (size_t stretch = 0; stretch < pieces.size(); ++stretch)
            documents[pieces[stretch].document].push_back({pieces[stretch], rank, stretch, -1});
    }
    std::vector<Document> cut;
    for (auto& [number, document] : documents)
        if (document.size() > 1) cut.push_back(std::move(document));
    return cut;
}

// Numbers the slots of each rank, and returns how many a rank has at most.
int64_t number_slots(std::vector<Document>& documents, int64_t ring) {
    std::vector<std::vector<Part*>> of_rank(static_cast<size_t>(ring));
    for (Document& document : documents)
        for (Part& part : document) of_rank[static_cast<size_t>(part.rank)].push_back(&part);
    size_t slots = 0;
    for (const auto& parts : of_rank) slots = std::max(slots, parts.size());
    for (auto& parts : of_rank) {
        std::ranges::sort(parts, {}, &Part::stretch);
        for (size_t i = 0; i < parts.size(); ++i)
            parts[i]->slot = parts[i]->rank * static_cast<int64_t>(slots) + static_cast<int64_t>(i);
    }
    return static_cast<int64_t>(slots);
}

// The rows before stretch `next` of a document that are tokens of it, and where they lie.
void add_rows_before(const Document& document, size_t next, int64_t ring_rank, Chain& chain) {
    const Part& reader = document[next];
    int64_t row = rows_before;  // the nearest is the last
    for (size_t earlier = next; earlier-- > 0 && row > 0;) {
        const Part& part = document[earlier];
        for (int64_t back = 1; back <= std::min(part.piece.length, rows_before) && row > 0;
             ++back) {
            --row;
            if (reader.rank == ring_rank)
                chain.before.push_back({static_cast<int64_t>(reader.stretch) * rows_before + row,
                                        part.slot * rows_before + rows_before - back});
            if (part.rank == ring_rank)
                chain.reached.push_back({part.piece.offset + part.piece.length - back,
                                         reader.slot * rows_before + row});
        }
    }
}

}  // namespace

Chain make_chain(const SequencePartition& partition, int64_t ring_rank) {
    Chain chain;
    for (const Piece& piece :
         cut_by_documents(partition.of_ring_rank(ring_rank), partition.document_starts()))
        chain.stretches.push_back({piece.offset, piece.length});
    std::vector<Document> documents = documents_of(partition);
    chain.slots = number_slots(documents, partition.ring());
    for (Document& document : documents) {
        std::ranges::sort(document, {}, [](const Part& part) { return part.piece.start; });
        std::vector<Chain::Link> links;
        bool is_here = false;
        for (size_t i = 0; i < document.size(); ++i) {
            const Part& part = document[i];
            const bool is_mine = part.rank == ring_rank;
            is_here = is_here || is_mine;
            links.push_back({part.slot, is_mine ? std::optional(part.stretch) : std::nullopt});
            if (is_mine) chain.cut.push_back(part.stretch);
            add_rows_before(document, i, ring_rank, chain);
        }
        if (is_here) chain.documents.push_back(std::move(links));
    }
    std::ranges::sort(chain.cut);
    return chain;
}

}  // namespace ringshard::attention
