#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::data {

// Rows with the log-probability that a model gives each of their tokens.
struct ScoredRows {
    std::vector<int64_t> rows;     // their numbers
    std::vector<int64_t> lengths;  // in tokens
    // Of the tokens of all rows, one row after another. The first token of a document has no
    // probability: NaN.
    std::vector<int32_t> tokens;
    std::vector<float> log_probabilities;
    std::vector<bool> is_learned;
    // The most likely tokens in the place of each, top_k to a token, the most likely first.
    std::vector<int32_t> top_tokens;
    std::vector<float> top_log_probabilities;
};

// A Parquet file of scored rows. It is written under a name of its own kind, and has its own name
// when it is whole and on disk.
class ScoreFile {
public:
    static Expected<ScoreFile> create(const std::filesystem::path& file, int64_t top_k);
    ScoreFile(ScoreFile&&) noexcept;
    ScoreFile& operator=(ScoreFile&&) = delete;
    ~ScoreFile();  // removes what was not published

    std::optional<Failure> add(const ScoredRows& rows);
    // Writes what is left and flushes it to disk.
    std::optional<Failure> finish();
    // Gives the file its name.
    std::optional<Failure> publish();

private:
    struct Parts;
    explicit ScoreFile(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

}  // namespace ringshard::data
