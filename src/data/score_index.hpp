#pragma once

#include <span>
#include <utility>

#include "ringshard/comm/agree.hpp"
#include "ringshard/data/prepare.hpp"
#include "score_reader.hpp"

namespace ringshard::data {

// Names the setting and the folder.
Failure refuse_scores(const ScoreChoice& choice, const std::string& why);

// The files of a folder of scores, in the order of their rows. Fails if it has none, or if one is
// missing.
Expected<std::vector<std::filesystem::path>> score_files(const ScoreChoice& choice);
// Fails if these are no scores that serve, as far as their heads say. Rank 0 reads them for all.
// Collective over the group.
std::optional<comm::AgreedFailure> check_score_heads(const ScoreChoice& choice,
                                                     const comm::Group& group);

// The row groups of all files, in the order of their rows.
struct ScoreGroups {
    struct Group {
        size_t file;
        int64_t number;     // in the file
        int64_t first_row;  // over all files
    };
    std::vector<Group> groups;
    int64_t num_rows = 0;
    int64_t per_token = 0;  // of the scores
};

// Rank 0 reads the heads of the files for all. Collective over the group.
comm::Agreed<ScoreGroups> find_groups(const ScoreChoice& choice,
                                      const std::vector<std::filesystem::path>& files,
                                      const comm::Group& group);

// The part of `count` things that is this rank's.
struct GroupShare {
    size_t first;
    size_t last;
};
GroupShare share_of_rank(size_t count, const comm::Group& group);

uint64_t hash_tokens(std::span<const int32_t> tokens);
std::span<const int32_t> tokens_of(const ScoredGroup& group, int64_t row);

// The hash of the tokens of each scored row, and its number over all files. In their order.
using RowsByTokens = std::vector<std::pair<uint64_t, int64_t>>;

// Each rank reads the tokens of its share of the row groups. Collective over the group.
comm::Agreed<RowsByTokens> index_rows(const std::vector<std::filesystem::path>& files,
                                      const ScoreGroups& found, const comm::Group& group);

}  // namespace ringshard::data
