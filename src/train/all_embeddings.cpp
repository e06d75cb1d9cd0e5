#include "all_embeddings.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "ringshard/ops/device_copies.hpp"
#include "shard_batch.hpp"

namespace ringshard::train {

namespace {

int64_t count_documents(std::span<const data::Piece> pieces) {
    return std::ranges::count(pieces, 0U, &data::Piece::goes_on);
}

}  // namespace

AllEmbeddings::AllEmbeddings(const data::Rows& rows, std::span<const int64_t> numbers,
                             const mesh::Mesh& mesh, const model::Transformer& model)
    : mesh_(mesh), model_(model) {
    for (const int64_t number : numbers) rows_.add(count_documents(rows.pieces(number)));
    embeddings_ = at::zeros({rows_.documents(), model.spec().width},
                            at::TensorOptions(mesh.device()).dtype(at::kFloat));
}

void AllEmbeddings::read(int64_t first, data::FlatBatch batch) {
    const at::Tensor mine =
        model_.embed_texts(shard_texts(std::move(batch), mesh_, model_.masks()));
    // One rank of every sequence group adds them up in join().
    if (mesh_.sequence_rank() == 0)
        embeddings_.narrow(0, rows_.starts[static_cast<size_t>(first)], mine.size(0)).copy_(mine);
}

void AllEmbeddings::join() { mesh_.world().all_reduce(embeddings_).wait(); }

std::vector<model::EmbeddedDocuments::Learned> AllEmbeddings::learn(
    std::span<const OwnRows> batches, double temperature) const {
    std::vector<int64_t> anchors;
    for (const auto& [first, count] : batches)
        for (int64_t row = first; row < first + count; ++row) anchors.push_back(row);
    const auto [losses, of_units] = compared(temperature).learn(anchors);
    // A text is compared with the anchors of all ranks.
    if (mesh_.sequence_rank() != 0) of_units.zero_();
    mesh_.world().all_reduce(of_units).wait();
    const at::Tensor gradients =
        model::gradients_of_embeddings(embeddings_, of_units).to(at::kFloat);

    std::vector<int64_t> documents;
    for (const int64_t row : anchors) documents.push_back(rows_.starts[static_cast<size_t>(row)]);
    const at::Tensor numbers =
        at::zeros({rows_.documents(), model_.objective().numbers_per_token()}, gradients.options());
    const at::Tensor places = ops::on_device(documents, mesh_.device());
    numbers.select(1, 0).index_copy_(0, places, losses.losses.to(at::kFloat));
    numbers.select(1, ops::stats_per_token).index_copy_(0, places, losses.is_right.to(at::kFloat));
    std::vector<model::EmbeddedDocuments::Learned> learned;
    for (const auto& [first, count] : batches) {
        const int64_t begin = rows_.starts[static_cast<size_t>(first)];
        const int64_t length = rows_.starts[static_cast<size_t>(first + count)] - begin;
        learned.push_back({gradients.narrow(0, begin, length), numbers.narrow(0, begin, length)});
    }
    return learned;
}

}  // namespace ringshard::train
