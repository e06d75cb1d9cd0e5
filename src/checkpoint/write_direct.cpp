#include <fcntl.h>

#include <algorithm>

#include "range_check.hpp"
#include "ringshard/base/files.hpp"
#include "write_pieces.hpp"

namespace ringshard::checkpoint {

namespace {

std::span<const std::byte> bytes_of(const at::Tensor& numbers) {
    return {static_cast<const std::byte*>(numbers.data_ptr()),
            static_cast<size_t>(numbers.nbytes())};
}

std::optional<Failure> write_piece(const PlacedPiece& placed, const StateFile::Placed& dataset,
                                   File& file, Hash& hash) {
    const int64_t element = bytes_of(dataset.type);
    return for_each_chunk(placed.piece, [&](int64_t done, int64_t count) -> std::optional<Failure> {
        at::Tensor chunk = placed.piece.numbers(done, count);
        if (!chunk.device().is_cpu()) chunk = chunk.to(at::kCPU);
        const auto bytes = bytes_of(chunk);
        if (!are_finite(bytes, dataset.type))
            return Failure{ExitCode::bad_numbers, concat(placed.piece.dataset,
                                                         " holds NaN or infinite numbers: no "
                                                         "checkpoint is made of them")};
        hash.add(bytes);
        return file.write_at(bytes, dataset.offset + (placed.first_there + done) * element);
    });
}

}  // namespace

Expected<std::vector<WrittenRange>> write_direct(const FileWork& work, Faults& faults) {
    auto opened = File::open(work.file, O_WRONLY);
    if (!opened) return opened.failure();
    std::vector<WrittenRange> ranges;
    for (const PlacedPiece& placed : work.pieces) {
        const OwnPiece& piece = placed.piece;
        const StateFile::Placed& dataset = work.layout.datasets.at(piece.dataset);
        const int64_t offset = dataset.offset + placed.first_there * bytes_of(dataset.type);
        if (const auto fault = faults.reach("save:write", work.file)) {
            const at::Tensor half = piece.numbers(0, piece.range.size() / 2).cpu();
            if (auto failure = opened.value().write_at(bytes_of(half), offset)) return *failure;
            return *fault;
        }
        Hash hash;
        if (auto failure = write_piece(placed, dataset, opened.value(), hash)) return *failure;
        ranges.push_back({piece.dataset, piece.first, work.file.filename(), offset, piece.bytes(),
                          hash.digits()});
    }
    if (const auto fault = faults.reach("save:flush", work.file)) return *fault;
    if (auto failure = opened.value().flush()) return *failure;
    return ranges;
}

}  // namespace ringshard::checkpoint
