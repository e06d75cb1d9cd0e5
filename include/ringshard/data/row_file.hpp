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
// of ranks and threads can share the work and come to the same result.
class RowFile {
public:
    virtual ~RowFile() = default;

    virtual int64_t num_blocks() const = 0;

    // Hands over every row of a block in order, or what is wrong with it. `row` counts within the
    // block. A failure is one of the whole file. Several threads may read at once.
    using Use = std::function<void(int64_t row, Expected<text::Value> content)>;
    virtual std::optional<Failure> read(int64_t block, const Use& use) const = 0;

    // Where a row stands, for people: "chat.jsonl:17", "chat.parquet, row 17". May read the file.
    virtual std::string place(int64_t block, int64_t row) const = 0;
};

// By its content: JSON lines, a list in JSON, Parquet, Arrow. Columns that are not `wanted` keep
// their names and lose their values.
Expected<std::unique_ptr<RowFile>> open_row_file(const std::filesystem::path& file,
                                                 std::vector<std::string> wanted);

// Whether a file has to be unpacked before it can be read in blocks (.gz, .zst, by its content).
bool is_compressed(const std::filesystem::path& file);
std::optional<Failure> unpack(const std::filesystem::path& file, const std::filesystem::path& into);

}  // namespace ringshard::data
