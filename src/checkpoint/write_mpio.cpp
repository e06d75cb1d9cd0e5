#include <ATen/ops/cat.h>
#include <fcntl.h>

#include <algorithm>
#include <map>
#include <vector>

#include "hdf5_elements.hpp"
#include "range_check.hpp"
#include "ringshard/base/shared_file.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/comm/agree.hpp"
#include "write_pieces.hpp"

namespace ringshard::checkpoint {

using namespace hdf5;

namespace {

// Hints about the file system for MPI-IO.
class Hints {
public:
    explicit Hints(const std::vector<std::string>& hints) {
        MPI_Info_create(&info_);
        for (const std::string& hint : hints) {
            const size_t equals = hint.find('=');
            MPI_Info_set(info_, hint.substr(0, equals).c_str(), hint.substr(equals + 1).c_str());
        }
    }
    ~Hints() { MPI_Info_free(&info_); }
    Hints(const Hints&) = delete;
    Hints& operator=(const Hints&) = delete;
    MPI_Info handle() const { return info_; }

private:
    MPI_Info info_ = MPI_INFO_NULL;
};

FileId open_together(const std::filesystem::path& file, const std::vector<std::string>& hints,
                     const comm::Group& writers) {
    const Hints info(hints);
    const PropertiesId access(H5Pcreate(H5P_FILE_ACCESS), "make properties");
    expect(H5Pset_fapl_mpio(access, writers.handle(), info.handle()), "choose MPI-IO");
    expect(H5Pset_all_coll_metadata_ops(access, true), "read together");
    return {H5Fopen(file.c_str(), H5F_ACC_RDWR, access), "open the file through MPI-IO"};
}

// Returns a piece as one tensor in host memory, as HDF5 needs it.
at::Tensor in_one(const OwnPiece& piece, ChunkReader& chunks) {
    if (piece.copy.defined()) return piece.copy;
    std::vector<at::Tensor> parts;
    piece.for_numbers(chunks,
                      [&](const at::Tensor& numbers) { parts.push_back(numbers.to(at::kCPU)); });
    return parts.size() == 1 ? parts.front() : at::cat(parts);
}

// The pieces of one dataset that this rank holds, in their order there: usually none; several where
// it has parts of several slices of a tensor.
using DatasetPieces = std::vector<const PlacedPiece*>;

std::map<std::string, DatasetPieces> by_dataset(const std::vector<PlacedPiece>& pieces) {
    std::map<std::string, DatasetPieces> all;
    for (const PlacedPiece& placed : pieces) all[placed.piece.dataset].push_back(&placed);
    for (auto& [name, of_dataset] : all)
        std::ranges::sort(of_dataset, {}, &PlacedPiece::first_there);
    return all;
}

// Writes them at once. Every rank takes part in every dataset, whatever failed before, since the
// other ranks wait.
void write_dataset(const FileId& file, const std::string& name, const StateFile::Placed& dataset,
                   const DatasetPieces& mine, ChunkReader& chunks, const PropertiesId& transfer) {
    std::vector<Elements> places;
    std::vector<at::Tensor> parts;
    int64_t count = 0;
    for (const PlacedPiece* placed : mine) {
        places.push_back({placed->first_there, placed->piece.count});
        parts.push_back(in_one(placed->piece, chunks));
        count += placed->piece.count;
    }
    if (parts.size() > 1) parts = {at::cat(parts)};
    const DatasetId id(H5Dopen2(file, name.c_str(), H5P_DEFAULT), "open a dataset");
    const SpaceId there = choose(dataset.shape, places);
    const SpaceId here = choose({std::max<int64_t>(1, count)}, std::vector<Elements>{{0, count}});
    expect(H5Dwrite(id, type_of(dataset.type), here, there, transfer,
                    parts.empty() ? nullptr : parts.front().data_ptr()),
           "write a dataset through MPI-IO");
}

Expected<std::vector<WrittenRange>> describe(const FileWork& work) {
    if (auto failure = wait_until_visible(work.file)) return *failure;  // rank 0 has created it
    std::vector<WrittenRange> ranges;
    ChunkReader chunks;
    for (const PlacedPiece& placed : work.pieces) {
        const OwnPiece& piece = placed.piece;
        const StateFile::Placed& dataset = work.layout.datasets.at(piece.dataset);
        const at::Tensor whole = in_one(piece, chunks);
        const std::span<const std::byte> bytes{static_cast<const std::byte*>(whole.data_ptr()),
                                               static_cast<size_t>(whole.nbytes())};
        if (!are_finite(bytes, dataset.type)) return no_numbers(piece.dataset);
        Hash hash;
        hash.add(bytes);
        ranges.push_back({piece.dataset, piece.first, work.file.filename(),
                          dataset.offset + placed.first_there * bytes_of(dataset.type),
                          static_cast<int64_t>(bytes.size()), hash.digits()});
    }
    return ranges;
}

std::optional<Failure> write_together(const FileWork& work, const std::vector<std::string>& hints,
                                      const comm::Group& writers, Faults& faults) {
    const auto all = by_dataset(work.pieces);
    const DatasetPieces none;
    ChunkReader chunks;
    std::optional<Failure> first_failure;
    const auto opened = with_failure_as_value(work.file, [&] {
        FileId file = open_together(work.file, hints, writers);
        const PropertiesId transfer(H5Pcreate(H5P_DATASET_XFER), "make properties");
        expect(H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE), "write together");
        for (const auto& [name, dataset] : work.layout.datasets) {
            const auto found = all.find(name);
            const DatasetPieces& mine = found == all.end() ? none : found->second;
            const auto fault = mine.empty() ? std::nullopt : faults.reach("save:write", work.file);
            const auto written = with_failure_as_value(work.file, [&] {
                write_dataset(file, name, dataset, fault ? none : mine, chunks, transfer);
                return true;
            });
            if (fault && !first_failure) first_failure = fault;
            if (!written && !first_failure) first_failure = written.failure();
            for (const PlacedPiece* placed : written ? mine : none)
                writers.flight_recorder().bytes().add(placed->piece.bytes());
        }
        expect(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush the file");
        file.close("close the file");
        return true;
    });
    if (first_failure) return first_failure;
    return opened ? std::nullopt : std::optional(opened.failure());
}

}  // namespace

Expected<std::vector<WrittenRange>> write_mpio(const FileWork& work,
                                               const std::vector<std::string>& hints,
                                               const comm::Group& writers, Faults& faults) {
    auto ranges = comm::agreed(writers, describe(work));
    if (!ranges) return Failure(ranges.failure());
    if (auto failure = write_together(work, hints, writers, faults)) return *failure;
    if (const auto fault = faults.reach("save:flush", work.file)) return *fault;
    auto file = File::open(work.file, O_WRONLY);
    if (!file) return file.failure();
    if (auto failure = file.value().flush()) return *failure;
    return std::move(ranges).value();
}

}  // namespace ringshard::checkpoint
