#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::data {

// Returns the file patterns of every split that the metadata of a dataset's README.md lists for a
// configuration (empty: the default one); empty if it lists none.
Expected<std::map<std::string, std::vector<std::string>>> read_dataset_card(
    const std::filesystem::path& folder, const std::string& config);

}  // namespace ringshard::data
