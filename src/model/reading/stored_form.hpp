#pragma once

#include <cstdint>
#include <vector>

#include "../config_reader.hpp"
#include "ringshard/model/stored_form.hpp"

namespace ringshard::model {

// Sizes of the model's matrices.
using MatrixSizes = std::vector<int64_t>;

// Reads quantization_config; complains about a method that is not served. `may_be_mxfp4`: of models
// whose experts may lie so.
void read_stored_form(ConfigReader& config, const MatrixSizes& sizes, bool may_be_mxfp4,
                      StoredForm& form);

}  // namespace ringshard::model
