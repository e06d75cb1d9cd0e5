#pragma once

#include <optional>

#include "ringshard/data/prepare.hpp"

namespace ringshard::config {
struct Config;
struct DataSettings;
struct TrainingSettings;
}  // namespace ringshard::config

namespace ringshard::data {

// Returns what a row is to the method.
RowContent row_content(const config::TrainingSettings& training);

// Returns the settings of tokenizer, chat template and columns.
Expected<FormatSettings> format_settings(const config::Config& config, const HubCache& hub);

// Returns the preparation of the training data.
Expected<Preparation> training_data(const config::Config& config, const HubCache& hub);

// The rows of one evaluation set, with a title for people: "evaluation data NAME".
struct EvaluationData {
    std::string name;  // of the set; empty: the only one
    std::string title;
    Preparation preparation;
};
// Returns the preparation of each evaluation set: --eval_dataset_name, else the part that
// test_split_size splits off, else the test split of the dataset.
Expected<std::vector<EvaluationData>> evaluation_data(const config::Config& config,
                                                      const HubCache& hub);

// Returns --data_cache_dir, else a folder next to the cache of the user's Hugging Face tools.
std::filesystem::path cache_folder(const config::DataSettings& settings, const HubCache& hub);

}  // namespace ringshard::data
