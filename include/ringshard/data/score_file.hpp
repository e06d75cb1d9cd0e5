#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::data {

// Rows with the log-probability of each of their tokens under a model.
struct ScoredRows {
    std::vector<int64_t> rows;     // row numbers
    std::vector<int64_t> lengths;  // in tokens
    // Tokens of all rows, concatenated. The first token of a document has no probability: NaN.
    std::vector<int32_t> tokens;
    std::vector<float> log_probabilities;
    std::vector<bool> is_learned;
    // The top_k most likely tokens at each position, the most likely first.
    std::vector<int32_t> top_tokens;
    std::vector<float> top_log_probabilities;
};

// The key of the file's metadata whose value is JSON: {"temperature": 1.0}.
constexpr const char* score_settings_key = "ringshard_scores";

// A Parquet file of scored rows. It has a temporary name until it is complete and on disk.
class ScoreFile {
public:
    // temperature: of top_log_probabilities.
    static Expected<ScoreFile> create(const std::filesystem::path& file, int64_t top_k,
                                      double temperature);
    ScoreFile(ScoreFile&&) noexcept;
    ScoreFile& operator=(ScoreFile&&) = delete;
    ~ScoreFile();  // removes an unpublished file

    std::optional<Failure> add(const ScoredRows& rows);
    // Writes the remaining rows and flushes the file to disk.
    std::optional<Failure> finish();
    // Renames the file to its final name.
    std::optional<Failure> publish();

private:
    struct Parts;
    explicit ScoreFile(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

}  // namespace ringshard::data
