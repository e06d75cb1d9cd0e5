#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringshard/base/hub_cache.hpp"

namespace ringshard::data {

// A dataset as a user names it.
struct DatasetName {
    std::string setting{};  // that named it: for messages
    std::string path{};     // file, folder, glob or hub name
    std::string config{};   // of a hub dataset
    std::string split{};
    std::vector<std::string> data_files{};  // within path; empty: all
    bool takes_any_split = false;           // if the one that is named is not there
    std::string cure{};                     // what to say where it has no such split
};

// As a message calls it: its path, or the files of a mixture's entry that names its format.
std::string shown_name(const DatasetName& dataset);

// Its files, in the order in which their rows count. Folders that cannot be read are left out, with
// a warning.
Expected<std::vector<std::filesystem::path>> find_dataset_files(const DatasetName& dataset,
                                                                const HubCache& hub,
                                                                std::vector<std::string>& warnings);

}  // namespace ringshard::data
