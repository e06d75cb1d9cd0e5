#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/data/sample_places.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::data {

// The rows of a file, in blocks that depend only on the file, not on its readers: so any number of
// ranks and threads can share the work with the same result. A rank takes whole blocks; its threads
// share the parts of them.
class RowFile {
public:
    RowFile(std::filesystem::path name, RowUnit unit) : name_(std::move(name)), unit_(unit) {}
    RowFile(const RowFile&) = delete;
    virtual ~RowFile() = default;

    virtual int64_t num_blocks() const = 0;
    virtual int64_t num_parts(int64_t) const { return 1; }  // per block

    struct Part {
        int64_t block = 0;
        int64_t part = 0;
    };
    // Calls `use` for every row of a part in order, with its content or its error. `row` counts
    // within the part. Returns the number of row places in the part. A failure concerns the whole
    // file. Several threads may read at once; if they begin the parts in order, they read each byte
    // of the file once.
    using Use = std::function<void(int64_t row, Expected<text::Value> content)>;
    virtual Expected<int64_t> read(const Part& part, const Use& use) const = 0;

    // Counts what read() would return, without parsing.
    struct Count {
        int64_t places = 0;  // as read() returns them, including empty lines
        int64_t rows = 0;    // calls of `use`
    };
    virtual Expected<Count> count(const Part& part) const = 0;

    // Names a row for users, counted from 0 over all blocks.
    std::string place(int64_t row) const { return place_text(name_.string(), unit_, row); }
    RowUnit unit() const { return unit_; }

    // Returns the block boundaries if finding them takes a pass over the whole file; otherwise
    // empty. Pass them to open_row_file() to skip that pass.
    virtual std::string cuts() const { return {}; }

protected:
    const std::filesystem::path name_;

private:
    const RowUnit unit_;
};

// Kinds of text files, which their bytes do not determine.
enum class TextKind {
    none,  // JSON, Parquet or Arrow
    csv,
    tsv,
    lines,    // one row per line
    document  // the whole file is one row
};
// Determines the kind from the file name, ignoring .gz or .zst: .csv, .tsv, .txt (lines).
TextKind text_kind_of(const std::filesystem::path& name);

struct RowFileSettings {
    std::vector<std::string> wanted;  // columns to read; the others keep only their names
    TextKind text = TextKind::none;
};

// Opens a file of a text kind as such, any other file by its content: JSON lines, a JSON list,
// Parquet, Arrow. `cuts`: from an earlier open of the same file, or empty.
Expected<std::unique_ptr<RowFile>> open_row_file(const std::filesystem::path& file,
                                                 const RowFileSettings& settings,
                                                 const std::string& cuts = {});

// Returns true if a file must be unpacked before reading in blocks (.gz, .zst, by its content).
bool is_compressed(const std::filesystem::path& file);
std::optional<Failure> unpack(const std::filesystem::path& file, const std::filesystem::path& into);

}  // namespace ringshard::data
