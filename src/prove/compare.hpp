#pragma once

#include <string>
#include <vector>

#include "ringshard/prove/proof.hpp"
#include "small_run.hpp"

namespace ringshard::prove {

// Compares two runs in fp32, which differ by the order of sums.
std::vector<Check> compare_exactly(const Outcome& in_mesh, const Outcome& alone);

// Compares two runs in the job's precision. `exact` is the run on one rank in fp32: a difference
// may be some times as large as the rounding of one rank, which is its distance from that run.
std::vector<Check> compare_rounded(const Outcome& in_mesh, const Outcome& alone,
                                   const Outcome& exact, const std::string& precision);

}  // namespace ringshard::prove
