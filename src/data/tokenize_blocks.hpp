#pragma once

#include "make_tokens.hpp"
#include "ringshard/data/row_file.hpp"
#include "token_spool.hpp"

namespace ringshard::data {

// A part of a block: what a thread tokenizes at a time.
struct WorkPart {
    size_t file = 0;
    int64_t item = 0;  // of the work list
    int64_t part = 0;
};

// A row that could not be used.
struct BadRow {
    size_t part = 0;  // of this rank's
    int64_t row = 0;  // within the part
    std::string what;
};

// What this rank's share of the dataset came to, in order.
struct TokenizedShare {
    std::vector<WorkPart> parts;
    std::vector<SpooledBlock> blocks;  // of the parts
    std::vector<int64_t> num_rows;     // of the parts, as RowFile::read() counts; -1: not read
    std::vector<BadRow> bad_rows;
    int64_t merged_prompts = 0;
};

// The blocks of all files, one after another: item i of the work is block i of this list.
struct WorkList {
    std::vector<InputFile> files;
    std::vector<std::string> cuts;     // of the files: see RowFile
    std::vector<int64_t> first_items;  // per file, and the end
    std::vector<std::string> wanted;   // columns
    int64_t size() const { return first_items.back(); }
    size_t file_of(int64_t item) const;
    RowFile::Part place_of(const WorkPart& part) const {
        return {part.item - first_items[part.file], part.part};
    }
    // Another rank may have unpacked the file.
    Expected<std::unique_ptr<RowFile>> open(size_t file) const;
};

// The rows of the items from `first` to `last` as tokens. Several threads share them. Gives up
// after more than skip_bad_rows bad rows, here or, as `give_up` tells by being there, elsewhere.
Expected<TokenizedShare> tokenize_blocks(const TokensToMake& tokens, const WorkList& work,
                                         int64_t first, int64_t last, const RowEncoder& encoder,
                                         std::span<const DatasetFormat> formats, TokenSpool& spool,
                                         const Workshop& workshop, int num_ranks,
                                         const std::filesystem::path& give_up);

}  // namespace ringshard::data
