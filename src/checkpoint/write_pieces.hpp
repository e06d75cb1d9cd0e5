#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringshard/base/faults.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "ringshard/checkpoint/state_file.hpp"
#include "ringshard/comm/group.hpp"
#include "state_exchange.hpp"

// Writes the elements of a rank into a file with a layout, and flushes it.
namespace ringshard::checkpoint {

struct PlacedPiece {
    OwnPiece piece;
    int64_t first_there;  // its first element in the file's dataset of the same name
};

// The pieces that a rank writes.
struct FileWork {
    std::filesystem::path file;
    StateFile layout;
    std::vector<PlacedPiece> pieces;
};

// Reports a dataset with values that are not finite.
inline Failure no_numbers(const std::string& dataset) {
    return {
        ExitCode::bad_numbers,
        format_text("{} holds NaN or infinite numbers: no checkpoint is made of them", dataset)};
}

// Writes without HDF5: every rank writes at the offsets that HDF5 assigned, and copies device
// tensors to the host in parts. Adds the bytes to `written`.
Expected<std::vector<WrittenRange>> write_direct(const FileWork& work, Faults& faults,
                                                 ByteCounter& written);

// Writes through HDF5's MPI-IO driver. `hints`: key=value. Adds the bytes to the writers' flight
// recorder. Collective over `writers`.
Expected<std::vector<WrittenRange>> write_mpio(const FileWork& work,
                                               const std::vector<std::string>& hints,
                                               const comm::Group& writers, Faults& faults);

}  // namespace ringshard::checkpoint
