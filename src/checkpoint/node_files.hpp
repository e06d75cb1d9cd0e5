#pragma once

#include "save_job.hpp"
#include "write_pieces.hpp"

// Assigns ranks to files: all ranks write one file of whole tensors, or the ranks of each node
// write a file of that node, which holds its pieces of a tensor side by side.
namespace ringshard::checkpoint {

// Returns the attributes of a state file.
std::map<std::string, int64_t> numbers_of(const SaveJob& job);

// Collective over the world of the groups.
comm::Agreed<FileWork> lay_out_one_file(const std::filesystem::path& folder, const SaveJob& job,
                                        const SaveGroups& groups, Faults& faults);
comm::Agreed<FileWork> lay_out_file_of_node(const std::filesystem::path& folder, const SaveJob& job,
                                            const SaveGroups& groups, Faults& faults);

// Creates state.h5 over the files of the nodes, and flushes it. ranges: of all ranks.
std::optional<Failure> write_master(const std::filesystem::path& folder, const SaveJob& job,
                                    const std::vector<WrittenRange>& ranges);

}  // namespace ringshard::checkpoint
