#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringshard/base/hub_cache.hpp"

namespace ringshard::data {

// A dataset as a user names it.
struct DatasetName {
    std::string setting{};                  // that named it: for messages
    std::string path{};                     // file, folder, glob or hub name
    std::string config{};                   // of a hub dataset
    std::string split{};                    // may be a slice, or a sum of slices
    std::vector<std::string> data_files{};  // within path; empty: all
    bool takes_any_split = false;           // if the one that is named is not there
    std::string cure{};                     // what to say where it has no such split
    std::string format{};  // csv or text, where a mixture's path says so; else by the files' names
};

// As a message calls it: its path, or the files of a mixture's entry that names its format.
std::string shown_name(const DatasetName& dataset);

// Its files of the split, which has to be one name, in the order in which their rows count. Left
// out, with a warning: folders that cannot be read, and files of text beside files of data.
Expected<std::vector<std::filesystem::path>> find_dataset_files(const DatasetName& dataset,
                                                                const HubCache& hub,
                                                                std::vector<std::string>& warnings);

}  // namespace ringshard::data
