#include "ringshard/attention/sequence_partition.hpp"

#include <algorithm>

#include "document_pieces.hpp"
#include "ringshard/base/error.hpp"

namespace ringshard::attention {

int64_t num_tokens(const Layout& layout) {
    int64_t total = 0;
    for (const Run& run : layout) total += run.length;
    return total;
}

namespace {

// More of the mean than this, and the list is cut document by document. That makes smaller tiles,
// so it must be worth something.
constexpr double uneven = 1.10;

// A rank holds no two runs that could be one.
void append(Layout& layout, const Run& run) {
    if (run.length == 0) return;
    if (!layout.empty() && layout.back().start + layout.back().length == run.start)
        layout.back().length += run.length;
    else
        layout.push_back(run);
}

// Returns the ring rank that holds a chunk of 2 x ring.
int64_t holder_of(int64_t chunk, int64_t ring) { return std::min(chunk, 2 * ring - 1 - chunk); }

std::vector<Layout> zigzag(int64_t length, int64_t ring) {
    const int64_t num_chunks = 2 * ring;
    const int64_t chunk_length = length / num_chunks;
    std::vector<Layout> layouts(static_cast<size_t>(ring));
    for (int64_t chunk = 0; chunk < num_chunks; ++chunk)
        append(layouts[static_cast<size_t>(holder_of(chunk, ring))],
               {chunk * chunk_length, chunk_length});
    return layouts;
}

// Every document in 2 x ring chunks. The tokens that are too many for equal chunks go to chunks in
// turn, and the turn goes on from document to document: first to one chunk of every rank, then to
// the other. So their number, a multiple of 2 x ring, is divided evenly, and a document adds at
// most one token to a chunk.
std::vector<Layout> zigzag_of_documents(int64_t length, std::span<const int64_t> document_starts,
                                        int64_t ring) {
    const int64_t num_chunks = 2 * ring;
    const auto turn_of = [&](int64_t chunk) { return chunk < ring ? chunk : 3 * ring - 1 - chunk; };
    std::vector<Layout> layouts(static_cast<size_t>(ring));
    int64_t turn = 0;
    for (size_t document = 0; document < document_starts.size(); ++document) {
        const bool is_last = document + 1 == document_starts.size();
        int64_t start = document_starts[document];
        const int64_t document_length = (is_last ? length : document_starts[document + 1]) - start;
        const int64_t too_many = document_length % num_chunks;
        for (int64_t chunk = 0; chunk < num_chunks; ++chunk) {
            const bool has_turn = (turn_of(chunk) - turn + num_chunks) % num_chunks < too_many;
            const int64_t chunk_length = document_length / num_chunks + (has_turn ? 1 : 0);
            append(layouts[static_cast<size_t>(holder_of(chunk, ring))], {start, chunk_length});
            start += chunk_length;
        }
        turn = (turn + too_many) % num_chunks;
    }
    return layouts;
}

// A query sees as many keys as it has earlier tokens in its document, and itself.
double work_of(const Layout& layout, std::span<const int64_t> document_starts,
               std::span<const Branch> branches) {
    std::vector<int64_t> shared(document_starts.size());
    for (const Branch& branch : branches) shared[branch.document] = branch.length;
    int64_t pairs = 0;
    for (const Piece& piece : cut_by_documents(layout, document_starts)) {
        const int64_t earlier =
            shared[piece.document] + piece.start - document_starts[piece.document];
        pairs += piece.length * earlier + piece.length * (piece.length + 1) / 2;
    }
    return static_cast<double>(pairs);
}

RingWork work_of(const std::vector<Layout>& layouts, std::span<const int64_t> document_starts,
                 std::span<const Branch> branches) {
    RingWork work{0, 0};
    for (const Layout& layout : layouts) {
        const double mine = work_of(layout, document_starts, branches);
        work.worst = std::max(work.worst, mine);
        work.mean += mine / static_cast<double>(layouts.size());
    }
    return work;
}

}  // namespace

SequencePartition::SequencePartition(int64_t num_tokens, std::vector<int64_t> document_starts,
                                     int64_t ring, int64_t ulysses, std::vector<Branch> branches)
    : document_starts_(std::move(document_starts)),
      branches_(std::move(branches)),
      ring_(ring),
      ulysses_(ulysses) {
    const int64_t multiple = 2 * ring * ulysses;
    // Without any token there is still the document that fills up.
    filled_length_ = std::max<int64_t>(1, (num_tokens + multiple - 1) / multiple) * multiple;
    if (filled_length_ > num_tokens) document_starts_.push_back(num_tokens);
    ring_layouts_ = zigzag(filled_length_, ring);
    if (ring == 1) return;
    const RingWork plain = work();
    if (plain.worst <= uneven * plain.mean) return;
    std::vector<Layout> by_documents = zigzag_of_documents(filled_length_, document_starts_, ring);
    if (work_of(by_documents, document_starts_, branches_).worst < plain.worst)
        ring_layouts_ = std::move(by_documents);
}

const Layout& SequencePartition::of_ring_rank(int64_t ring_rank) const {
    return ring_layouts_.at(static_cast<size_t>(ring_rank));
}

RingWork SequencePartition::work() const {
    return work_of(ring_layouts_, document_starts_, branches_);
}

Layout SequencePartition::of_rank(int64_t ring_rank, int64_t ulysses_rank) const {
    const int64_t length = tokens_per_rank();
    const int64_t begin = ulysses_rank * length;
    Layout part;
    int64_t passed = 0;
    for (const Run& run : of_ring_rank(ring_rank)) {
        const int64_t from = std::max(begin, passed);
        const int64_t to = std::min(begin + length, passed + run.length);
        if (from < to) part.push_back({run.start + from - passed, to - from});
        passed += run.length;
    }
    return part;
}

}  // namespace ringshard::attention
