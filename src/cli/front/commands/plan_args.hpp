#pragma once

#include "ringshard/base/expected.hpp"
#include "ringshard/run/plan_args.hpp"

namespace ringshard::cli {

Expected<run::PlanArgs> parse_plan_args(const std::vector<std::string>& flags);

}  // namespace ringshard::cli
