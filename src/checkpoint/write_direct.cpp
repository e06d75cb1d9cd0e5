#include <algorithm>

#include "direct_file.hpp"
#include "range_check.hpp"
#include "write_pieces.hpp"

namespace ringshard::checkpoint {

namespace {

std::span<const std::byte> bytes_of(const at::Tensor& numbers) {
    return {static_cast<const std::byte*>(numbers.data_ptr()),
            static_cast<size_t>(numbers.nbytes())};
}

// Writes the elements of a piece, one part at a time: a part is still in cache from checking and
// hashing when it is copied for the file, and data outside host memory needs a buffer of one part.
class PieceWriter {
public:
    PieceWriter(const PlacedPiece& placed, int64_t offset, DirectFile& file, ByteCounter& written)
        : dataset_(placed.piece.dataset),
          type_(placed.piece.type),
          at_(offset),
          file_(file),
          written_(written) {}

    void write(const at::Tensor& numbers) {
        const int64_t element = numbers.element_size();
        for (int64_t done = 0; done < numbers.numel() && !failure_;) {
            const int64_t room = std::max<int64_t>(
                1, (DirectFile::part_bytes - at_ % DirectFile::part_bytes) / element);
            const int64_t count = std::min(room, numbers.numel() - done);
            at::Tensor chunk = numbers.narrow(0, done, count);
            if (!chunk.device().is_cpu()) chunk = chunk.to(at::kCPU);
            write(bytes_of(chunk));
            done += count;
        }
    }
    const std::optional<Failure>& failure() const { return failure_; }
    std::string hash() const { return hash_.digits(); }

private:
    void write(std::span<const std::byte> bytes) {
        if (!are_finite(bytes, type_)) {
            failure_ = no_numbers(dataset_);
            return;
        }
        hash_.add(bytes);
        failure_ = file_.write_at(bytes, at_);
        written_.add(std::ssize(bytes));
        at_ += static_cast<int64_t>(bytes.size());
    }

    const std::string& dataset_;
    ElementType type_;
    int64_t at_;
    DirectFile& file_;
    ByteCounter& written_;
    Hash hash_;
    std::optional<Failure> failure_;
};

// Fails like a disk that writes only half.
std::optional<Failure> write_half(const OwnPiece& piece, ChunkReader& chunks, int64_t offset,
                                  DirectFile& file) {
    std::optional<Failure> failure;
    piece.for_numbers(chunks, [&](const at::Tensor& numbers) {
        const auto bytes = bytes_of(numbers.to(at::kCPU));
        if (!failure) failure = file.write_at(bytes.first(bytes.size() / 2), offset);
    });
    return failure;
}

}  // namespace

Expected<std::vector<WrittenRange>> write_direct(const FileWork& work, Faults& faults,
                                                 ByteCounter& written) {
    auto opened = DirectFile::open(work.file);
    if (!opened) return opened.failure();
    std::vector<WrittenRange> ranges;
    ChunkReader chunks;
    for (const PlacedPiece& placed : work.pieces) {
        const OwnPiece& piece = placed.piece;
        const StateFile::Placed& dataset = work.layout.datasets.at(piece.dataset);
        const int64_t offset = dataset.offset + placed.first_there * bytes_of(piece.type);
        if (const auto fault = faults.reach("save:write", work.file)) {
            if (auto failure = write_half(piece, chunks, offset, opened.value())) return *failure;
            return *fault;
        }
        PieceWriter writer(placed, offset, opened.value(), written);
        piece.for_numbers(chunks, [&](const at::Tensor& numbers) { writer.write(numbers); });
        if (writer.failure()) return *writer.failure();
        ranges.push_back({piece.dataset, piece.first, work.file.filename(), offset, piece.bytes(),
                          writer.hash()});
    }
    if (const auto fault = faults.reach("save:flush", work.file)) return *fault;
    if (auto failure = opened.value().flush()) return *failure;
    return ranges;
}

}  // namespace ringshard::checkpoint
