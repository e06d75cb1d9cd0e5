#pragma once

#include "ringshard/base/files.hpp"
#include "row_file.hpp"

namespace ringshard::data {

// Opens a file of one JSON object per line.
Expected<std::unique_ptr<RowFile>> open_json_lines(const std::filesystem::path& file,
                                                   std::vector<std::string> wanted);
// Opens a file that is one list of JSON objects. `cuts`: see RowFile.
Expected<std::unique_ptr<RowFile>> open_json_list(const std::filesystem::path& file,
                                                  std::vector<std::string> wanted,
                                                  const std::string& cuts);

// Opens text: a row {"text": ...} per line, like the text builder of `datasets`, or one row.
Expected<std::unique_ptr<RowFile>> open_text_lines(const std::filesystem::path& file);
Expected<std::unique_ptr<RowFile>> open_text_document(const std::filesystem::path& file);

// Opens a table in text, whose first record names the columns. All values are texts, or null if
// empty.
Expected<std::unique_ptr<RowFile>> open_csv(const std::filesystem::path& file,
                                            const std::vector<std::string>& wanted, char separator,
                                            const std::string& cuts);

// Scans the blocks from `first` to `last` (exclusive) of a table to find where records begin: see
// CsvBlockScan. The joined letters of all blocks are the cuts of the file.
int64_t num_csv_blocks(const std::filesystem::path& file);
Expected<std::string> scan_csv(const std::filesystem::path& file, char separator, int64_t first,
                               int64_t last);

Expected<std::unique_ptr<RowFile>> open_parquet(const std::filesystem::path& file,
                                                const std::vector<std::string>& wanted);
// Opens Arrow's stream format, which `datasets` writes, or its file format.
Expected<std::unique_ptr<RowFile>> open_arrow(const std::filesystem::path& file,
                                              const std::vector<std::string>& wanted);

}  // namespace ringshard::data
