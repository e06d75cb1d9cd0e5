#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringshard/data/array_file.hpp"

namespace ringshard::data {

struct Sample;

// What people count in a file: a file of documents is one row.
enum class RowUnit : uint32_t { line, row, item, file };
// Names a row, counted from 0: "chat.jsonl:17", "chat.parquet, row 17".
std::string place_text(const std::string& file, RowUnit unit, int64_t row);

// Consecutive samples of a store that are consecutive rows of a file. A store has one run for each
// part of a file that a thread read, and one more behind each row that is no sample.
struct SampleRun {
    uint64_t sample = 0;  // the first one
    uint64_t row = 0;     // of the file, from 0
    uint32_t file = 0;    // in the order in which the head of the store lists the files
    RowUnit unit = RowUnit::line;
};

// Finds the row of a dataset to which tokens of a store belong.
class SamplePlaces {
public:
    explicit SamplePlaces(const ArrayFile& store);

    // False for stores of earlier versions.
    bool are_known() const { return !runs_.empty(); }
    // Returns the places of the samples of these tokens: "/data/chat.jsonl:17".
    std::vector<std::string> of_tokens(uint64_t begin, uint64_t count) const;

private:
    std::string of_sample(uint64_t sample) const;

    std::shared_ptr<const void> owner_;  // of the data that the spans show
    std::span<const Sample> samples_;
    std::span<const SampleRun> runs_;
    std::vector<std::string> files_;
};

}  // namespace ringshard::data
