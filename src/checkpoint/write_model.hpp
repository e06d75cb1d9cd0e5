#pragma once

#include "ringshard/checkpoint/saver.hpp"
#include "write_pieces.hpp"

// The same weights once more as a model's files beside the state, for programs that read no HDF5.
namespace ringshard::checkpoint {

// Whether a file of a checkpoint's folder is such a copy. The manifest does not name it: whoever
// needs the room may remove it.
bool is_copy_of_weights(const std::string& file_name);

// Makes the files with their heads. One rank does this.
std::optional<Failure> lay_out_model(const std::filesystem::path& folder,
                                     const std::vector<ModelFile>& files);

// Writes the weights of this rank at their places, and flushes them: trained ones from the pieces,
// frozen ones as they are read again, which are added to `sums`. Counts what it has written.
std::optional<Failure> write_model(const std::filesystem::path& folder, const Extras& extras,
                                   const std::vector<OwnPiece>& pieces, Faults& faults,
                                   shard::TensorSums& sums, ByteCounter& written);

}  // namespace ringshard::checkpoint
