#pragma once

#include <optional>

#include "ringshard/base/expected.hpp"
#include "ringshard/report/document_log.hpp"

namespace ringshard::cli {

// Finds the rows of the dataset that make up the documents of a step, in the prepared rows of the
// run. Fails if these are gone.
std::optional<Failure> find_places(report::LoggedStep& step);

}  // namespace ringshard::cli
