#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/text/value.hpp"

namespace ringshard::data {

// The rows of a file, in blocks that depend on the file alone, not on who reads them: so any number
// of ranks and threads can share the work and come to the same result. A rank takes whole blocks;
// its threads share the parts of them.
class RowFile {
public:
    virtual ~RowFile() = default;

    virtual int64_t num_blocks() const = 0;
    virtual int64_t num_parts(int64_t) const { return 1; }  // of a block

    struct Part {
        int64_t block = 0;
        int64_t part = 0;
    };
    // Hands over every row of a part in order, or what is wrong with it. `row` counts within the
    // part. Returns how many rows the part has, by that count. A failure is one of the whole file.
    // Several threads may read at once; where they begin the parts in order, each byte of the file
    // is read once.
    using Use = std::function<void(int64_t row, Expected<text::Value> content)>;
    virtual Expected<int64_t> read(const Part& part, const Use& use) const = 0;

    // What read() would hand over, without a look into it.
    struct Count {
        int64_t places = 0;  // as read() returns them: empty lines have a place, too
        int64_t rows = 0;    // that read() hands over
    };
    virtual Expected<Count> count(const Part& part) const = 0;

    // A row of the file for people, counted from 0 over all blocks: "chat.jsonl:17", "chat.parquet,
    // row 17".
    virtual std::string place(int64_t row) const = 0;

    // Where the blocks begin, if it takes a pass over the whole file to find out; else empty. Who
    // opens the file with it need not look again.
    virtual std::string cuts() const { return {}; }
};

// What a file of text is, which its bytes do not say.
enum class TextKind {
    none,  // JSON, Parquet or Arrow
    csv,
    tsv,
    lines,    // a row a line
    document  // the file is one row
};
// By the ending of a name, before .gz or .zst: .csv, .tsv, .txt (lines).
TextKind text_kind_of(const std::filesystem::path& name);

struct RowFileSettings {
    std::vector<std::string> wanted;  // columns; the others keep their names and lose their values
    TextKind text = TextKind::none;
};

// Opens a file of a text kind as such, any other by its content: JSON lines, a list in JSON,
// Parquet, Arrow. `cuts`: of the same file, opened before; or empty.
Expected<std::unique_ptr<RowFile>> open_row_file(const std::filesystem::path& file,
                                                 const RowFileSettings& settings,
                                                 const std::string& cuts = {});

// Whether a file has to be unpacked before it can be read in blocks (.gz, .zst, by its content).
bool is_compressed(const std::filesystem::path& file);
std::optional<Failure> unpack(const std::filesystem::path& file, const std::filesystem::path& into);

}  // namespace ringshard::data
