#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::data {

// What the head of a file of scores says.
struct ScoreFileHead {
    std::vector<int64_t> rows_of_groups;
    double temperature = 1;  // of the log-probabilities
};
Expected<ScoreFileHead> read_score_head(const std::filesystem::path& file);

// The rows of a row group, one behind the other.
struct ScoredGroup {
    std::vector<int64_t> row_starts;  // in `tokens`, and the end of the last row
    std::vector<int32_t> tokens;
    // The most likely tokens in the place of each token, and the place of its first one; not read
    // if only the tokens are asked for. A token without scores has none.
    std::vector<int64_t> top_starts;
    std::vector<int32_t> top_tokens;
    std::vector<float> top_log_probs;
};
enum class ScoreColumns { tokens, all };
Expected<ScoredGroup> read_score_group(const std::filesystem::path& file, int64_t group,
                                       ScoreColumns columns);

}  // namespace ringshard::data
