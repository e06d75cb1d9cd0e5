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

Expected<std::unique_ptr<RowFile>> open_parquet(const std::filesystem::path& file,
                                                const std::vector<std::string>& wanted);
// Arrow's format for streams, which `datasets` writes, or its format for files.
Expected<std::unique_ptr<RowFile>> open_arrow(const std::filesystem::path& file,
                                              const std::vector<std::string>& wanted);

}  // namespace ringshard::data
