#pragma once

#include "ringshard/checkpoint/saver.hpp"
#include "write_pieces.hpp"

// Writes the weights again as a model's files beside the state, for programs that do not read HDF5.
namespace ringshard::checkpoint {

// Returns true if a file in a checkpoint's folder is such a copy. The manifest does not name it:
// users who need the space may remove it.
bool is_copy_of_weights(const std::string& file_name);

// Creates the files with their headers. Called on one rank.
std::optional<Failure> lay_out_model(const std::filesystem::path& folder,
                                     const std::vector<ModelFile>& files);

// Writes this rank's weights at their offsets, and flushes: trained ones from the pieces, frozen
// ones from the source files. Adds the frozen ones to `sums`, and the bytes to `written`.
std::optional<Failure> write_model(const std::filesystem::path& folder, const Extras& extras,
                                   const std::vector<OwnPiece>& pieces, Faults& faults,
                                   shard::TensorSums& sums, ByteCounter& written);

}  // namespace ringshard::checkpoint
