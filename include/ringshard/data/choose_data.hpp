#pragma once

#include <optional>

#include "ringshard/config/data_settings.hpp"
#include "ringshard/data/prepare.hpp"

namespace ringshard::config {
struct Config;
}

namespace ringshard::data {

// The settings of tokenizer, chat template and columns.
Expected<FormatSettings> format_settings(const config::Config& config, const HubCache& hub);

// The settings of the data to train on.
Expected<Preparation> training_data(const config::Config& config, const HubCache& hub);

// And about the data to evaluate on: --eval_dataset_name, else what test_split_size splits off,
// else the test split of the dataset.
Expected<Preparation> evaluation_data(const config::Config& config, const HubCache& hub);

// --data_cache_dir, else beside what the user's Hugging Face tools keep.
std::filesystem::path cache_folder(const config::DataSettings& settings, const HubCache& hub);

}  // namespace ringshard::data
