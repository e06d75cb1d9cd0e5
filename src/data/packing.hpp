#pragma once

#include "ringshard/data/row_plan.hpp"

namespace ringshard::config {
enum class PackingStrategy;
}

namespace ringshard::data {

// Packs documents into rows of at most max_length tokens, by TRL's rules. Best fit decreasing takes
// the longest document first and puts it into the fullest row with enough space, of equally full
// rows into the one that became so first. bfd cuts off the rest of a document that exceeds a row,
// bfd_split makes it a document of its own; wrapped cuts one stream every max_length tokens. Like
// TRL, packs every `problem_size` documents separately; 0: all at once.
RowPlan pack(std::span<const Piece> documents, config::PackingStrategy strategy,
             uint32_t max_length, size_t problem_size);

// TRL's map batch size.
inline constexpr size_t trl_problem_size = 1000;

}  // namespace ringshard::data
