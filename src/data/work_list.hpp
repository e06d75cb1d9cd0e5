#pragma once

#include <span>

#include "ringshard/comm/agree.hpp"
#include "ringshard/data/row_file.hpp"
#include "ringshard/data/split_slice.hpp"

namespace ringshard::data {

// A file of a dataset.
struct InputFile {
    std::filesystem::path name;   // as the user knows it
    std::filesystem::path plain;  // what is read: unpacked if it was compressed
    size_t source = 0;
    size_t slice = 0;  // number of the slice that the file belongs to, over all sources
    TextKind text = TextKind::none;
};

// A slice whose rows are taken from consecutive files.
struct InputSlice {
    SplitSlice slice;
    std::string shown;  // setting and value, for messages
};

// A part of a block: what a thread tokenizes at a time.
struct WorkPart {
    size_t file = 0;
    int64_t item = 0;  // of the work list
    int64_t part = 0;
    RowRange rows{0, INT64_MAX};  // that are taken, in the order in which read() hands them over
    bool takes(int64_t row) const { return row >= rows.begin && row < rows.end; }
};

// The part of a file that a slice takes: as many blocks as the work list has items of it.
struct FileSlice {
    int64_t first_block = 0;
    int64_t places_before = 0;              // in the blocks before the first one
    int64_t first_row = 0;                  // of the first block
    int64_t end_in_last_block = INT64_MAX;  // rows of the last block that are taken
};

// The blocks of all files that are read, one after another: item i of the work is block i of this
// list.
struct WorkList {
    std::vector<InputFile> files;
    std::vector<std::string> cuts;     // of the files: see RowFile
    std::vector<int64_t> first_items;  // per file, and the end
    std::vector<FileSlice> slices;     // per file
    std::vector<std::string> wanted;   // columns
    int64_t size() const { return first_items.back(); }
    size_t file_of(int64_t item) const;
    RowFile::Part place_of(const WorkPart& part) const {
        return {slices[part.file].first_block + part.item - first_items[part.file], part.part};
    }
    // Returns the parts of an item, of a file that was opened.
    Expected<std::vector<WorkPart>> parts_of(int64_t item, const RowFile& file) const;
    // Another rank may have unpacked the file.
    Expected<std::unique_ptr<RowFile>> open(size_t file) const;
};

// Counts the blocks of all files, each rank those of some; cuts that take a look at a whole file
// are found once. Collective over the group.
comm::Agreed<WorkList> list_work(std::vector<InputFile> files, std::vector<std::string> wanted,
                                 const comm::Group& group);

// Keeps the blocks that slices take. Where a slice has bounds, the ranks share the counting of
// rows: as far as a bound in rows needs it, else in all files of its split. Fails where a slice has
// no row; a bound beyond the rows is a warning. Collective over the group.
std::optional<comm::AgreedFailure> apply_slices(WorkList& work, std::span<const InputSlice> slices,
                                                const comm::Group& group,
                                                std::vector<std::string>& warnings);

// Items that a rank takes, of so many.
struct Share {
    int64_t first = 0;
    int64_t last = 0;
};
Share share_of(int64_t total, const comm::Group& group);

}  // namespace ringshard::data
