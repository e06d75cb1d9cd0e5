#include "ringshard/train/reference_log_probs.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "ringshard/base/files.hpp"
#include "ringshard/data/array_file.hpp"
#include "row_work.hpp"
#include "shard_batch.hpp"

namespace ringshard::train {

namespace {

namespace fs = std::filesystem;

struct ScoredRow {
    int64_t row;
    std::array<double, 2> log_probs;
};

// Returns the rows of a data rank in a round.
std::vector<int64_t> rows_of_round(const data::Rows& rows, int64_t batch_size,
                                   const mesh::Mesh& mesh, int64_t round) {
    const int64_t first = (round * mesh.shape().data() + mesh.data_rank()) * batch_size;
    const int64_t begin = std::min(rows.size(), first);
    std::vector<int64_t> numbers(
        static_cast<size_t>(std::min(rows.size(), first + batch_size) - begin));
    std::iota(numbers.begin(), numbers.end(), begin);
    return numbers;
}

std::vector<double> in_order_of_rows(const std::vector<std::string>& of_ranks, int64_t num_rows) {
    std::vector<double> numbers(2 * static_cast<size_t>(num_rows));
    for (const std::string& bytes : of_ranks) {
        std::vector<ScoredRow> rows(bytes.size() / sizeof(ScoredRow));
        std::memcpy(rows.data(), bytes.data(), bytes.size());
        for (const auto& [row, log_probs] : rows)
            std::ranges::copy(log_probs, numbers.begin() + 2 * row);
    }
    return numbers;
}

// Returns the log-probabilities of the answers in a batch, two for each row: a side that a pair
// does not have has 0.
std::vector<double> log_probs_of(data::FlatBatch batch, const mesh::Mesh& mesh,
                                 const model::Transformer& model) {
    return model.log_probs_of_sides(shard_answers(std::move(batch), mesh, model.masks(), {}, {}));
}

// Returns two numbers for each row, as ReferenceLogProbs has them. Collective over the sequence
// group.
std::vector<double> read_rows(const data::Rows& rows, std::span<const int64_t> numbers,
                              const mesh::Mesh& mesh, const model::Transformer& model) {
    std::vector<double> found = log_probs_of(data::flatten(rows, numbers), mesh, model);
    if (!rows.content().is_judged) return found;
    std::vector<double> of_baseline(found.size());
    if (rows.has_baseline())
        of_baseline = log_probs_of(data::flatten_baseline(rows, numbers), mesh, model);
    for (size_t i = 0; i < found.size(); i += 2) {
        found[i] += found[i + 1];
        found[i + 1] = of_baseline[i] + of_baseline[i + 1];
    }
    return found;
}

std::optional<Failure> write(const fs::path& file, const data::Rows& rows,
                             const std::vector<double>& numbers) {
    const fs::path unfinished = file.string() + work_mark();
    std::error_code error;
    fs::remove(unfinished, error);
    const data::NamedBytes array{"log_probs", std::as_bytes(std::span(numbers))};
    if (auto failure =
            data::write_array_file(unfinished, rows.content_hash(), std::span(&array, 1)))
        return failure;
    return rename_atomically(unfinished, file);
}

}  // namespace

std::string ReferenceLogProbs::file_name(const data::Rows& rows) {
    return "reference-" + rows.content_hash();
}

ReferenceLogProbs ReferenceLogProbs::of(std::vector<double> numbers) {
    const auto held = std::make_shared<const std::vector<double>>(std::move(numbers));
    ReferenceLogProbs reference;
    reference.numbers_ = *held;
    reference.owner_ = held;
    return reference;
}

Expected<ReferenceLogProbs> ReferenceLogProbs::map(const fs::path& file, const data::Rows& rows) {
    const auto mapped = data::ArrayFile::map(file);
    if (!mapped) return mapped.failure();
    ReferenceLogProbs reference;
    reference.numbers_ = mapped.value().array<double>("log_probs");
    reference.owner_ = mapped.value().owner();
    if (mapped.value().about() != rows.content_hash() ||
        std::ssize(reference.numbers_) != 2 * rows.size())
        return Failure{ExitCode::bad_data,
                       format_text("{}: holds the reference of other rows", file.string())};
    return reference;
}

std::optional<Failure> ReferenceLogProbs::check(const fs::path& file) {
    const auto mapped = data::ArrayFile::map(file);
    if (mapped) {
        const auto sum = mapped.value().sum_checked(0, mapped.value().num_chunks());
        if (sum && sum.value() == mapped.value().chunk_sum()) return std::nullopt;
    }
    return Failure{ExitCode::bad_data,
                   format_text("{}: the file is damaged; put a copy back, or begin a run with the "
                               "exported model",
                               file.string())};
}

std::optional<Failure> write_reference_log_probs(const fs::path& file, const data::Rows& rows,
                                                 int64_t batch_size, const comm::Group& world,
                                                 const mesh::Mesh& mesh,
                                                 const model::Transformer& model,
                                                 const std::function<void(double)>& before_batch) {
    const int64_t per_round = batch_size * mesh.shape().data();
    const auto mine = [&](int64_t round) { return rows_of_round(rows, batch_size, mesh, round); };
    std::vector<double> operations;
    for (int64_t round = 0; round * per_round < rows.size(); ++round)
        operations.push_back(operations_of_rows(model.operations(), rows, mine(round)));
    std::vector<ScoredRow> scored;
    int64_t round = 0;
    for (const double of_round : largest_of_rounds(operations, world)) {
        before_batch(of_round);
        const std::vector<int64_t> numbers = mine(round++);
        const std::vector<double> log_probs = read_rows(rows, numbers, mesh, model);
        if (mesh.sequence_rank() != 0) continue;
        for (size_t i = 0; i < numbers.size(); ++i)
            scored.push_back({numbers[i], {log_probs[2 * i], log_probs[2 * i + 1]}});
    }
    const std::string bytes(reinterpret_cast<const char*>(scored.data()),
                            scored.size() * sizeof(ScoredRow));
    const std::vector<std::string> of_ranks = world.gather_to_root(bytes);
    if (!world.is_root()) return std::nullopt;
    return write(file, rows, in_order_of_rows(of_ranks, rows.size()));
}

}  // namespace ringshard::train
