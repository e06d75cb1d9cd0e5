#pragma once

#include <arrow/type_fwd.h>

#include "ringshard/text/value.hpp"

namespace ringshard::data {

// One row of a batch. Columns that are not `wanted` keep their names and lose their values.
Expected<text::Value> row_of(const arrow::RecordBatch& batch, int64_t row,
                             const std::vector<std::string>& wanted);

// "chat.parquet: ..." from Arrow's word for what went wrong.
Failure arrow_failure(const std::string& file, const arrow::Status& status);

}  // namespace ringshard::data
