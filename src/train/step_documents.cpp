#include "step_documents.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "ringshard/ops/cross_entropy.hpp"
#include "ringshard/ops/device_copies.hpp"
#include "shard_batch.hpp"

namespace ringshard::train {

namespace {

// The part of a rank in a document. Ranks of one sequence have the same data rank and number.
struct PartOfDocument {
    int64_t data_rank;
    int64_t number;  // in the step
    StepDocument sums;
};

std::string to_bytes(const std::vector<PartOfDocument>& parts) {
    return {reinterpret_cast<const char*>(parts.data()), parts.size() * sizeof(PartOfDocument)};
}

std::vector<PartOfDocument> from_bytes(const std::string& bytes) {
    std::vector<PartOfDocument> parts(bytes.size() / sizeof(PartOfDocument));
    std::memcpy(parts.data(), bytes.data(), bytes.size());
    return parts;
}

}  // namespace

void StepDocuments::add(const data::FlatBatch& batch) {
    MicroBatch& added = micro_batches_.emplace_back();
    added.documents = data::rows_of_documents(batch);
    const attention::Layout mine =
        partition_of(batch, mesh_.shape())
            .of_rank(mesh_.coordinates().ring, mesh_.coordinates().ulysses);
    const auto num_tokens = std::ssize(batch.tokens);  // behind them are fillers
    size_t document = 0;
    for (const attention::Run& run : mine)
        for (int64_t token = run.start; token < std::min(run.start + run.length, num_tokens);
             ++token) {
            while (document + 1 < added.documents.size() &&
                   added.documents[document + 1].begin <= token)
                ++document;
            if (batch.targets[static_cast<size_t>(token)] != model::TokenBatch::no_target)
                added.document_of_target.push_back(document);
        }
}

void StepDocuments::watch(model::TokenBatch& mine) {
    MicroBatch& last = micro_batches_.back();
    last.gradient_norms =
        at::empty({mine.targets.size(0)}, mine.targets.options().dtype(at::kFloat));
    mine.gradient_norms = last.gradient_norms;
}

void StepDocuments::take(const std::vector<at::Tensor>& token_stats) {
    RINGSHARD_CHECK(token_stats.size() == micro_batches_.size());
    for (size_t i = 0; i < token_stats.size(); ++i) micro_batches_[i].token_stats = token_stats[i];
}

std::vector<StepDocument> StepDocuments::gather(const comm::Group& world) const {
    std::vector<PartOfDocument> mine;
    int64_t before = 0;  // documents of earlier micro-batches
    for (const MicroBatch& batch : micro_batches_) {
        const at::Tensor stats = ops::on_host(batch.token_stats);
        const at::Tensor norms = ops::on_host(batch.gradient_norms);
        const auto* stat = stats.const_data_ptr<float>();
        const auto* norm = norms.const_data_ptr<float>();
        for (const size_t document : batch.document_of_target) {
            const int64_t number = before + static_cast<int64_t>(document);
            if (mine.empty() || mine.back().number != number)
                mine.push_back({mesh_.data_rank(),
                                number,
                                {.row = batch.documents[document].row,
                                 .place = batch.documents[document].place}});
            StepDocument& sums = mine.back().sums;
            ++sums.targets;
            sums.loss += static_cast<double>(*stat);
            sums.gradient_squares += static_cast<double>(*norm) * static_cast<double>(*norm);
            stat += stats.size(1);
            ++norm;
        }
        before += std::ssize(batch.documents);
    }
    std::map<std::pair<int64_t, int64_t>, StepDocument> all;
    for (const std::string& bytes : world.gather_to_root(to_bytes(mine)))
        for (const auto& [data_rank, number, part] : from_bytes(bytes)) {
            StepDocument& whole = all[{data_rank, number}];
            whole.row = part.row;
            whole.place = part.place;
            whole.targets += part.targets;
            whole.loss += part.loss;
            whole.gradient_squares += part.gradient_squares;
        }
    std::vector<StepDocument> documents;
    for (const auto& [key, document] : all) documents.push_back(document);
    return documents;
}

}  // namespace ringshard::train
