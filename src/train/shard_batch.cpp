#include "shard_batch.hpp"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <map>

#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/base/mix.hpp"
#include "ringshard/ops/device_copies.hpp"

namespace ringshard::train {

namespace {

struct Targets {
    std::vector<int64_t> places;
    std::vector<int64_t> tokens;
    std::vector<float> weights;
    std::vector<int64_t> scored_places;
};

// The other lists are as long as next_tokens, or empty.
Targets targets_of(const std::vector<int64_t>& next_tokens, const std::vector<float>& weights,
                   const std::vector<int64_t>& scored_places) {
    Targets targets;
    for (size_t place = 0; place < next_tokens.size(); ++place) {
        if (next_tokens[place] == model::TokenBatch::no_target) continue;
        targets.places.push_back(static_cast<int64_t>(place));
        targets.tokens.push_back(next_tokens[place]);
        if (!weights.empty()) targets.weights.push_back(weights[place]);
        if (!scored_places.empty()) targets.scored_places.push_back(scored_places[place]);
    }
    return targets;
}

// Returns the scores of another model as views of their mapped file, which `batch` keeps.
std::optional<model::StoredDistributions> stored_distributions(const data::FlatBatch& batch,
                                                               const std::vector<int64_t>& places) {
    if (batch.scores == nullptr) return std::nullopt;
    const auto view = [&]<class Number>(std::span<const Number> numbers, at::ScalarType type) {
        const int64_t k = batch.scores->per_token;
        return at::from_blob(
            const_cast<Number*>(numbers.data()), {std::ssize(numbers) / k, k},
            [scores = batch.scores](void*) {}, at::TensorOptions().dtype(type));
    };
    return model::StoredDistributions{ops::on_device(places, at::kCPU),
                                      view(batch.scores->tokens, at::kInt),
                                      view(batch.scores->log_probs, at::kFloat)};
}

bool has_dropout(const data::FlatBatch& batch) {
    return std::ranges::any_of(batch.learner_starts,
                               [](const auto& start) { return start.dropout.has_value(); });
}

// Makes the dropout key of every token from the bits of its learner's step, its row and its place
// in the row.
std::vector<int64_t> dropout_keys(const data::FlatBatch& batch) {
    std::vector<int64_t> keys(batch.tokens.size());
    size_t learner = 0;
    uint64_t of_step = 0;
    for (size_t i = 0; i < batch.row_starts.size(); ++i) {
        const auto& [row, begin, place] = batch.row_starts[i];
        const auto end = i + 1 < batch.row_starts.size()
                             ? static_cast<size_t>(batch.row_starts[i + 1].begin)
                             : keys.size();
        for (;
             learner < batch.learner_starts.size() && batch.learner_starts[learner].begin <= begin;
             ++learner)
            of_step = batch.learner_starts[learner].dropout.value_or(0);
        const uint64_t of_row = mix_bits(of_step, static_cast<uint64_t>(row));
        for (auto token = static_cast<size_t>(begin); token < end; ++token)
            keys[token] = static_cast<int64_t>(
                mix_bits(of_row, static_cast<size_t>(place) + token - static_cast<size_t>(begin)));
    }
    return keys;
}

// Returns how many tokens of a layout stand at `first` or behind it.
int64_t count_from(const attention::Layout& layout, int64_t first) {
    int64_t count = 0;
    for (const attention::Run& run : layout)
        count += std::clamp<int64_t>(run.start + run.length - first, 0, run.length);
    return count;
}

// The first of this rank's tokens of each learner, and the end of the last one's: `num_tokens` are
// in the whole list without fillers.
std::vector<int64_t> learner_bounds(const data::FlatBatch& batch, const attention::Layout& mine,
                                    int64_t num_tokens) {
    std::vector<int64_t> bounds;
    const int64_t all = count_from(mine, 0);
    for (const auto& [begin, dropout] : batch.learner_starts)
        bounds.push_back(all - count_from(mine, begin));
    bounds.push_back(all - count_from(mine, num_tokens));
    return bounds;
}

std::vector<int64_t> bounds_of_targets(const std::vector<int64_t>& of_tokens,
                                       const std::vector<int64_t>& places) {
    std::vector<int64_t> bounds;
    for (const int64_t bound : of_tokens)
        bounds.push_back(std::ranges::lower_bound(places, bound) - places.begin());
    return bounds;
}

}  // namespace

namespace {

// A document as a side of a pair, and its place among the answers of its row in the reference.
struct SideOfDocument {
    int64_t number;
    size_t in_reference;
};

// In the order of the documents: those of a row are a pair, and a single answer is a side of one.
std::vector<SideOfDocument> sides_of_documents(const data::FlatBatch& batch,
                                               const std::vector<data::FlatBatch::RowStart>& rows) {
    std::vector<SideOfDocument> sides;
    // A row that the end of an epoch repeats may stand in a batch twice.
    std::map<std::pair<int64_t, bool>, int64_t> times;
    std::map<std::pair<int64_t, int64_t>, int64_t> pairs;
    for (const auto& [row, begin, place] : rows) {
        if (batch.content.is_judged) {
            const bool is_undesirable = data::is_undesirable(batch, sides.size());
            sides.push_back({2 * std::ssize(sides) + (is_undesirable ? 1 : 0),
                             batch.content.is_baseline ? 1U : 0U});
            continue;
        }
        const bool is_rejected = place > 0;
        const std::pair instance{row, times[{row, is_rejected}]++};
        const auto pair = pairs.try_emplace(instance, std::ssize(pairs)).first->second;
        sides.push_back({2 * pair + (is_rejected ? 1 : 0), is_rejected ? 1U : 0U});
    }
    return sides;
}

// Returns the pairs of a batch, and the sides of this rank's targets.
model::TokenPairs pairs_of(const data::FlatBatch& batch, const ReferenceLogProbs& reference,
                           const mesh::Mesh& mesh) {
    const std::vector<data::FlatBatch::RowStart> rows = data::rows_of_documents(batch);
    const std::vector<SideOfDocument> sides = sides_of_documents(batch, rows);
    const size_t documents_of_pair = batch.content.is_judged ? 1 : 2;
    model::TokenPairs pairs{
        .targets = {},
        .sides = std::vector<model::TokenPairs::Side>(2 * sides.size() / documents_of_pair)};
    std::vector<model::TokenPairs::Target> of_tokens;
    for (size_t document = 0; document < sides.size(); ++document) {
        const auto& [number, in_reference] = sides[document];
        model::TokenPairs::Side& side = pairs.sides[static_cast<size_t>(number)];
        side.reference = reference.of(rows[document].row, in_reference);
        const size_t end = document + 1 < sides.size()
                               ? static_cast<size_t>(rows[document + 1].begin)
                               : batch.tokens.size();
        for (auto token = static_cast<size_t>(rows[document].begin); token < end; ++token) {
            const bool is_target = batch.targets[token] != model::TokenBatch::no_target;
            const bool is_of_answer =
                batch.content.has_margins() || batch.weights.empty() || batch.weights[token] != 0;
            if (is_target && batch.content.has_margins() && !batch.weights.empty())
                side.reference = batch.weights[token] - 1;
            of_tokens.push_back({is_target ? number : model::TokenBatch::no_target, is_of_answer});
            side.targets += is_target ? 1 : 0;
            side.of_answer += is_target && is_of_answer ? 1 : 0;
        }
    }
    const attention::SequencePartition partition = partition_of(batch, mesh.shape());
    of_tokens.resize(static_cast<size_t>(partition.filled_length()),
                     {model::TokenBatch::no_target, false});
    pairs.targets =
        attention::pick(std::span<const model::TokenPairs::Target>(of_tokens),
                        partition.of_rank(mesh.coordinates().ring, mesh.coordinates().ulysses));
    std::erase_if(pairs.targets, [](const model::TokenPairs::Target& target) {
        return target.side == model::TokenBatch::no_target;
    });
    return pairs;
}

}  // namespace

model::TokenBatch shard_answers(data::FlatBatch batch, const mesh::Mesh& mesh,
                                std::span<const attention::Mask> masks,
                                const ReferenceLogProbs& reference, const model::AllPairs& all) {
    model::TokenPairs pairs = pairs_of(batch, reference, mesh);
    pairs.all = all;
    for (data::FlatBatch::LearnerStart& start : batch.learner_starts) start.dropout.reset();
    batch.weights.clear();  // pairs give their own
    model::TokenBatch mine = shard_batch(std::move(batch), mesh, masks);
    mine.pairs = std::move(pairs);
    return mine;
}

namespace {

struct OfDocument {
    int64_t document = model::TokenBatch::no_target;
    float share = 0;
};

// The document of each token that is a target, and its share in the embedding.
std::vector<OfDocument> shares_of_targets(const data::FlatBatch& batch) {
    std::vector<OfDocument> of_tokens(batch.tokens.size());
    for (size_t document = 0; document < batch.document_starts.size(); ++document) {
        const auto begin = static_cast<size_t>(batch.document_starts[document]);
        const size_t end = document + 1 < batch.document_starts.size()
                               ? static_cast<size_t>(batch.document_starts[document + 1])
                               : of_tokens.size();
        const auto is_target = [](int64_t target) {
            return target != model::TokenBatch::no_target;
        };
        const auto targets = std::span(batch.targets).subspan(begin, end - begin);
        const auto count = std::ranges::count_if(targets, is_target);
        for (size_t token = begin; token < end; ++token)
            if (is_target(batch.targets[token]))
                of_tokens[token] = {static_cast<int64_t>(document), 1 / static_cast<float>(count)};
    }
    return of_tokens;
}

}  // namespace

model::TokenBatch shard_texts(data::FlatBatch batch, const mesh::Mesh& mesh,
                              std::span<const attention::Mask> masks) {
    const attention::SequencePartition partition = partition_of(batch, mesh.shape());
    std::vector<OfDocument> of_tokens = shares_of_targets(batch);
    of_tokens.resize(static_cast<size_t>(partition.filled_length()));
    std::vector<int64_t> documents;
    std::vector<float> shares;
    for (const auto& [document, share] :
         attention::pick(std::span<const OfDocument>(of_tokens),
                         partition.of_rank(mesh.coordinates().ring, mesh.coordinates().ulysses))) {
        if (document == model::TokenBatch::no_target) continue;
        documents.push_back(document);
        shares.push_back(share);
    }
    for (data::FlatBatch::LearnerStart& start : batch.learner_starts) start.dropout.reset();
    const auto count = std::ssize(batch.document_starts);
    model::TokenBatch mine = shard_batch(std::move(batch), mesh, masks);
    mine.documents = {count, ops::on_device(documents, mesh.device()),
                      ops::on_device(shares, mesh.device())};
    return mine;
}

attention::SequencePartition partition_of(const data::FlatBatch& batch,
                                          const mesh::MeshShape& shape) {
    std::vector<attention::Branch> branches;
    for (const auto& [document, stem, length] : batch.branches)
        branches.push_back({document, stem, length});
    return {static_cast<int64_t>(batch.tokens.size()), batch.document_starts, shape.ring,
            shape.ulysses, std::move(branches)};
}

data::FlatBatch order_for_attention(data::FlatBatch batch, const mesh::Mesh& mesh) {
    if (!mesh.device().is_cuda() || mesh.shape().ring > 1) return batch;
    return data::sort_by_length(std::move(batch));
}

model::TokenBatch shard_batch(data::FlatBatch batch, const mesh::Mesh& mesh,
                              std::span<const attention::Mask> masks) {
    const attention::SequencePartition partition = partition_of(batch, mesh.shape());
    const auto num_tokens = static_cast<int64_t>(batch.tokens.size());
    const auto filled = static_cast<size_t>(partition.filled_length());
    batch.tokens.resize(filled, 0);
    batch.targets.resize(filled, model::TokenBatch::no_target);
    const bool is_weighted = !batch.weights.empty();
    if (is_weighted) batch.weights.resize(filled, 0);
    if (batch.scores != nullptr) batch.places.resize(filled, 0);
    const auto positions = attention::positions_in_documents(partition);

    const attention::Layout mine =
        partition.of_rank(mesh.coordinates().ring, mesh.coordinates().ulysses);
    const auto part = [&]<class Number>(const std::vector<Number>& whole) {
        return attention::pick(std::span(whole), mine);
    };
    std::vector<int64_t> bounds = learner_bounds(batch, mine, num_tokens);
    const Targets targets =
        targets_of(part(batch.targets), is_weighted ? part(batch.weights) : std::vector<float>(),
                   batch.scores != nullptr ? part(batch.places) : std::vector<int64_t>());
    const auto there = [&](const auto& values) { return ops::on_device(values, mesh.device()); };
    std::vector<attention::Plan> plans =
        attention::make_plans(partition, mesh.coordinates().ring, masks);
    attention::prepare_plans(plans, mesh.device());
    return {there(part(batch.tokens)),
            there(part(positions)),
            there(targets.places),
            there(targets.tokens),
            is_weighted ? std::optional(there(targets.weights)) : std::nullopt,
            std::move(plans),
            has_dropout(batch) ? std::optional(there(part(dropout_keys(batch)))) : std::nullopt,
            there(part(attention::document_lengths(partition))),
            count_from(mine, num_tokens),
            bounds,
            bounds_of_targets(bounds, targets.places),
            std::nullopt,
            stored_distributions(batch, targets.scored_places),
            std::nullopt};
}

}  // namespace ringshard::train
