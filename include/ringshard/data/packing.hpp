#pragma once

#include "ringshard/config/data_settings.hpp"
#include "ringshard/data/row_plan.hpp"

namespace ringshard::data {

// Puts documents into rows of at most max_length tokens, by TRL's rules. Best fit decreasing: the
// longest first, each into the fullest row that still takes it, of equally full ones into the one
// that was so first. What is longer than a row is cut off (bfd) or goes on as a document of its own
// (bfd_split); wrapped is one stream that is cut every max_length tokens. TRL packs every
// `problem_size` documents by themselves; 0: all at once.
RowPlan pack(std::span<const Piece> documents, config::PackingStrategy strategy,
             uint32_t max_length, size_t problem_size);

// The size that TRL calls a map batch.
inline constexpr size_t trl_problem_size = 1000;

}  // namespace ringshard::data
