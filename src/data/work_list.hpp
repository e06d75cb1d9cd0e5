#pragma once

#include <span>

#include "ringshard/comm/agree.hpp"
#include "row_file.hpp"
#include "split_slice.hpp"

namespace ringshard::data {

// A file of a dataset.
struct InputFile {
    std::filesystem::path name;   // as the user wrote it
    std::filesystem::path plain;  // the file to read, unpacked if it was compressed
    size_t source = 0;
    size_t slice = 0;  // index of its slice, over all sources
    TextKind text = TextKind::none;
};

// A slice whose rows come from consecutive files.
struct InputSlice {
    SplitSlice slice;
    std::string shown;  // setting and value, for messages
};

// A part of a block, the unit of work of a thread.
struct WorkPart {
    size_t file = 0;
    int64_t item = 0;  // index in the work list
    int64_t part = 0;
    RowRange rows{0, INT64_MAX};  // rows to use, counted as read() returns them
    bool takes(int64_t row) const { return row >= rows.begin && row < rows.end; }
};

// The part of a file in a slice: as many blocks as the work list has items of this file.
struct FileSlice {
    int64_t first_block = 0;
    int64_t places_before = 0;              // in earlier blocks
    int64_t first_row = 0;                  // to use in the first block
    int64_t end_in_last_block = INT64_MAX;  // number of rows to use in the last block
};

// The blocks of all files, one after another: item i of the work is block i of this list.
struct WorkList {
    std::vector<InputFile> files;
    std::vector<std::string> cuts;     // by file: see RowFile
    std::vector<int64_t> first_items;  // by file, plus the end
    std::vector<FileSlice> slices;     // per file
    std::vector<std::string> wanted;   // columns
    int64_t size() const { return first_items.back(); }
    size_t file_of(int64_t item) const;
    RowFile::Part place_of(const WorkPart& part) const {
        return {slices[part.file].first_block + part.item - first_items[part.file], part.part};
    }
    // Returns the parts of an item of an open file.
    Expected<std::vector<WorkPart>> parts_of(int64_t item, const RowFile& file) const;
    // Opens a file; another rank may have unpacked it.
    Expected<std::unique_ptr<RowFile>> open(size_t file) const;
};

// Counts the blocks of all files, each rank some; scans whole files for `cuts` only once.
// Collective over the group.
comm::Agreed<WorkList> list_work(std::vector<InputFile> files, std::vector<std::string> wanted,
                                 const comm::Group& group);

// Keeps the blocks that slices need. The ranks share the counting of rows: up to a bound in rows,
// otherwise in all files of the split. Fails if a slice has no row; a bound beyond the rows is a
// warning. Collective over the group.
std::optional<comm::AgreedFailure> apply_slices(WorkList& work, std::span<const InputSlice> slices,
                                                const comm::Group& group,
                                                std::vector<std::string>& warnings);

// A rank's share of items.
struct Share {
    int64_t first = 0;
    int64_t last = 0;
};
Share share_of(int64_t total, const comm::Group& group);

}  // namespace ringshard::data
