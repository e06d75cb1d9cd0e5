#pragma once

#include "make_tokens.hpp"
#include "token_spool.hpp"
#include "work_list.hpp"

namespace ringshard::data {

// A row that could not be used.
struct BadRow {
    size_t part = 0;  // of this rank's
    int64_t row = 0;  // within the part
    std::string what;
};

// The results of this rank's share of the dataset, in order.
struct TokenizedShare {
    std::vector<WorkPart> parts;
    std::vector<SpooledBlock> blocks;  // of the parts
    std::vector<int64_t> num_rows;     // of the parts, as RowFile::read() counts; -1: not read
    std::vector<BadRow> bad_rows;
    int64_t merged_prompts = 0;
    std::vector<LeftAside> left_aside;  // per source
};

// The rows of the items from `first` to `last` as tokens. Several threads share them. Gives up
// after more than skip_bad_rows bad rows, here or, as `give_up` tells by being there, elsewhere.
Expected<TokenizedShare> tokenize_blocks(const TokensToMake& tokens, const WorkList& work,
                                         int64_t first, int64_t last, const RowEncoder& encoder,
                                         std::span<const DatasetFormat> formats, TokenSpool& spool,
                                         const PrepareResources& resources, int num_ranks,
                                         const std::filesystem::path& give_up);

}  // namespace ringshard::data
