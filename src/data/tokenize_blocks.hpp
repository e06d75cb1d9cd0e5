#pragma once

#include "make_tokens.hpp"
#include "token_spool.hpp"
#include "work_list.hpp"

namespace ringshard::data {

// An unusable row.
struct BadRow {
    size_t part = 0;  // index into this rank's parts
    int64_t row = 0;  // within the part
    std::string what;
};

// Consecutive samples of a part that are consecutive rows.
struct RowRun {
    uint64_t sample = 0;  // both within the part
    int64_t row = 0;
};

// The results of this rank's share of the dataset, in order.
struct TokenizedShare {
    std::vector<WorkPart> parts;
    std::vector<SpooledBlock> blocks;       // of the parts
    std::vector<int64_t> num_rows;          // of the parts, as RowFile::read() counts; -1: unread
    std::vector<std::vector<RowRun>> runs;  // of the parts
    std::vector<RowUnit> units;             // of the parts
    std::vector<BadRow> bad_rows;
    int64_t merged_prompts = 0;
    std::vector<LeftAside> left_aside;  // per source
};

// Tokenizes the rows of the items from `first` to `last` (exclusive), on several threads. Stops and
// creates the file `give_up` after a failure or more than skip_bad_rows bad rows; stops too once
// another rank has created it.
Expected<TokenizedShare> tokenize_blocks(const TokensToMake& tokens, const WorkList& work,
                                         int64_t first, int64_t last, const RowEncoder& encoder,
                                         std::span<const DatasetFormat> formats, TokenSpool& spool,
                                         const PrepareResources& resources, int num_ranks,
                                         const std::filesystem::path& give_up);

}  // namespace ringshard::data
