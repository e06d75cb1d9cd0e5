#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringshard/base/faults.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "ringshard/checkpoint/state_file.hpp"
#include "ringshard/comm/group.hpp"
#include "state_exchange.hpp"

// How the elements of a rank get into a file that was laid out, and onto the disk.
namespace ringshard::checkpoint {

struct PlacedPiece {
    OwnPiece piece;
    int64_t first_there;  // element of the dataset of the same name in the file
};

// The pieces that a rank writes.
struct FileWork {
    std::filesystem::path file;
    StateFile layout;
    std::vector<PlacedPiece> pieces;
};

// Why a dataset is not written.
inline Failure no_numbers(const std::string& dataset) {
    return {ExitCode::bad_numbers,
            concat(dataset, " holds NaN or infinite numbers: no checkpoint is made of them")};
}

// Past HDF5: every rank writes at the offsets that HDF5 gave. Tensors of a device come over in
// parts. Counts what it has written.
Expected<std::vector<WrittenRange>> write_direct(const FileWork& work, Faults& faults,
                                                 ByteCounter& written);

// Through HDF5's driver for MPI-IO. `hints`: key=value. Counts what it has written in the flight
// recorder of the writers. Collective over those who write the file.
Expected<std::vector<WrittenRange>> write_mpio(const FileWork& work,
                                               const std::vector<std::string>& hints,
                                               const comm::Group& writers, Faults& faults);

}  // namespace ringshard::checkpoint
