#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::data {

// The patterns of the files of every split, as the head of a dataset's README.md lists them for a
// configuration (empty: the default one). Nothing where it lists none.
Expected<std::map<std::string, std::vector<std::string>>> read_dataset_card(
    const std::filesystem::path& folder, const std::string& config);

}  // namespace ringshard::data
