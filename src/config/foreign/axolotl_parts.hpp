#pragma once

#include "foreign_import.hpp"

// The keys of axolotl that its table does not translate by itself.
namespace ringshard::config {

// Whether a reward model is trained.
inline bool learns_rewards(const ForeignImport& import) { return import.is_on("reward_model"); }
// Whether rows are answers that are desirable or not.
inline bool judges_answers(const ForeignImport& import) { return import.text("rl") == "kto"; }
// Whether rows are pairs of answers.
inline bool learns_pairs(const ForeignImport& import) {
    const std::string method = import.text("rl");
    return method == "dpo" || method == "ipo" || method == "simpo" || method == "orpo" ||
           learns_rewards(import);
}

// Reads the base, its chat template, the adapter and the precision.
void read_axolotl_model(ForeignImport& import);
// Reads the datasets and the evaluation data.
void read_axolotl_data(ForeignImport& import);
// Reads batches, the schedule, the times of saves and evaluations, trackers and sharding.
void read_axolotl_training(ForeignImport& import);

}  // namespace ringshard::config
