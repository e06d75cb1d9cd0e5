#pragma once

#include "ringshard/base/files.hpp"
#include "ringshard/data/row_file.hpp"

namespace ringshard::data {

// A file of one JSON object per line.
Expected<std::unique_ptr<RowFile>> open_json_lines(const std::filesystem::path& file,
                                                   std::vector<std::string> wanted);
// A file that is one list of JSON objects. `cuts`: see RowFile.
Expected<std::unique_ptr<RowFile>> open_json_list(const std::filesystem::path& file,
                                                  std::vector<std::string> wanted,
                                                  const std::string& cuts);

// Text: a row {"text": ...} a line, as the text builder of `datasets` reads it, or one row.
Expected<std::unique_ptr<RowFile>> open_text_lines(const std::filesystem::path& file);
Expected<std::unique_ptr<RowFile>> open_text_document(const std::filesystem::path& file);

// A table in text, whose first record names the columns; all values are text, an empty one is null.
Expected<std::unique_ptr<RowFile>> open_csv(const std::filesystem::path& file,
                                            const std::vector<std::string>& wanted, char separator,
                                            const std::string& cuts);

// The pass over a table that finds where records begin in its blocks, for the blocks from `first`
// up to `last`: see CsvBlockScan. The letters of all blocks, joined, are the cuts of the file.
int64_t num_csv_blocks(const std::filesystem::path& file);
Expected<std::string> scan_csv(const std::filesystem::path& file, char separator, int64_t first,
                               int64_t last);

Expected<std::unique_ptr<RowFile>> open_parquet(const std::filesystem::path& file,
                                                const std::vector<std::string>& wanted);
// Arrow's format for streams, which `datasets` writes, or its format for files.
Expected<std::unique_ptr<RowFile>> open_arrow(const std::filesystem::path& file,
                                              const std::vector<std::string>& wanted);

}  // namespace ringshard::data
