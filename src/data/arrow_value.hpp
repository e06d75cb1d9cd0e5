#pragma once

#include <arrow/type_fwd.h>

#include "ringshard/text/value.hpp"

namespace ringshard::data {

// Returns one row of a batch. Columns that are not `wanted` keep their names but have no values.
Expected<text::Value> row_of(const arrow::RecordBatch& batch, int64_t row,
                             const std::vector<std::string>& wanted);

// Formats Arrow's error as "chat.parquet: ...".
Failure arrow_failure(const std::string& file, const arrow::Status& status);

}  // namespace ringshard::data
