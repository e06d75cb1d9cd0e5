#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::report {

// A document of a step, as documents.jsonl has it.
struct LoggedDocument {
    int64_t row = 0;      // of the rows of training
    int64_t place = 0;    // of its first token in the row
    int64_t targets = 0;  // tokens
    double loss = 0;      // sum over these; NaN: it was not finite
    double share = 0;     // of the squares of the gradient at the input of the head
    std::vector<std::string> rows_of_dataset{};  // "/data/chat.jsonl:17", where someone finds them
};

struct LoggedStep {
    int64_t step = 0;
    int64_t attempt = 0;
    bool is_lost = false;  // its numbers were not finite, and the run went back, or ended
    std::string spike;     // why it is one, or empty
    double loss = 0;
    double grad_norm = 0;
    std::filesystem::path rows;  // the file of the rows of training
    std::vector<LoggedDocument> documents;
};

// Puts documents whose numbers are not finite first, then those with the largest share.
void sort_worst_first(std::vector<LoggedDocument>& documents);

// Reads the documents of a step of a run, without those that a later attempt has replaced; of a
// step that was lost, where no attempt has logged it otherwise. Fails if the run has not logged
// them. Holds one line at a time.
Expected<LoggedStep> read_logged_step(const std::filesystem::path& run, int64_t step);

// Returns the newest spikes of a run, in the order of steps, each with its worst documents.
std::vector<LoggedStep> read_spikes(const std::filesystem::path& run, size_t most_steps,
                                    size_t most_documents);

}  // namespace ringshard::report
