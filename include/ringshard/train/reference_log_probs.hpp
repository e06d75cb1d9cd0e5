#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/comm/group.hpp"
#include "ringshard/data/rows.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/transformer.hpp"

namespace ringshard::train {

// The log-probabilities of the answers of some rows under the reference: the model at the start of
// a run. Each row has two: of both sides of a pair, or of a single answer and its baseline. They
// lie in a file, which the attempts of the run share.
class ReferenceLogProbs {
public:
    ReferenceLogProbs() = default;  // 0 for every answer
    // Returns the name of the file for these rows.
    static std::string file_name(const data::Rows& rows);
    // Fails if the file is missing or of other rows.
    static Expected<ReferenceLogProbs> map(const std::filesystem::path& file,
                                           const data::Rows& rows);
    // numbers: two for each row.
    static ReferenceLogProbs of(std::vector<double> numbers);
    // Fails if a byte of the file has changed. For one rank.
    static std::optional<Failure> check(const std::filesystem::path& file);

    // answer: 0, chosen or single; 1, rejected or baseline.
    double of(int64_t row, size_t answer) const {
        return numbers_.empty() ? 0 : numbers_[2 * static_cast<size_t>(row) + answer];
    }

private:
    std::span<const double> numbers_;
    std::shared_ptr<const void> owner_;
};

// Computes them with the model as it is, and writes the file on rank 0. batch_size: rows per data
// rank and batch. Calls `before_batch` with the operations of the slowest rank, as if there were a
// backward pass. Collective over the world.
std::optional<Failure> write_reference_log_probs(const std::filesystem::path& file,
                                                 const data::Rows& rows, int64_t batch_size,
                                                 const comm::Group& world, const mesh::Mesh& mesh,
                                                 const model::Transformer& model,
                                                 const std::function<void(double)>& before_batch);

}  // namespace ringshard::train
