#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringshard/base/hub_cache.hpp"

namespace ringshard::data {

// A dataset as the user names it.
struct DatasetName {
    std::string setting{};                  // the setting that names it, for messages
    std::string path{};                     // file, folder, glob or hub name
    std::string config{};                   // configuration of a hub dataset
    std::string split{};                    // may be a slice, or a sum of slices
    std::vector<std::string> data_files{};  // within path; empty: all
    bool takes_any_split = false;           // use another split if this one does not exist
    std::string cure{};                     // advice for the message if the split does not exist
    std::string format{};                   // csv or text from a mixture's path; else by file name
};

// Returns the name for messages: the path, or the files of a mixture's entry that names its format.
std::string shown_name(const DatasetName& dataset);

// Returns the files of the split, which must be one name, in the order of their rows. Skips, with a
// warning, unreadable folders and text files among data files.
Expected<std::vector<std::filesystem::path>> find_dataset_files(const DatasetName& dataset,
                                                                const HubCache& hub,
                                                                std::vector<std::string>& warnings);

}  // namespace ringshard::data
