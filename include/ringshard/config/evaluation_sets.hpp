#pragma once

#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::config {

struct EvaluationSet {
    std::string name;  // empty: the only one
    std::string dataset;
};

// Reads eval_dataset_name: a dataset, or a mapping from names to datasets, in the order of the
// mapping. Returns nothing for an empty setting.
Expected<std::vector<EvaluationSet>> evaluation_sets(const std::string& eval_dataset_name);

}  // namespace ringshard::config
