#pragma once

#include "save_job.hpp"
#include "write_pieces.hpp"

// The assignment of ranks to files: all ranks write one file of whole tensors, or the ranks of each
// node into one of theirs, where the pieces that they have of a tensor lie side by side.
namespace ringshard::checkpoint {

// The attributes of a state file.
std::map<std::string, int64_t> numbers_of(const SaveJob& job);

// Collective over the world of the groups.
comm::Agreed<FileWork> lay_out_one_file(const std::filesystem::path& folder, const SaveJob& job,
                                        const SaveGroups& groups, Faults& faults);
comm::Agreed<FileWork> lay_out_file_of_node(const std::filesystem::path& folder, const SaveJob& job,
                                            const SaveGroups& groups, Faults& faults);

// state.h5 over the files of the nodes, flushed. ranges: of every rank.
std::optional<Failure> write_master(const std::filesystem::path& folder, const SaveJob& job,
                                    const std::vector<WrittenRange>& ranges);

}  // namespace ringshard::checkpoint
