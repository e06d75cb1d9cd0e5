#include "ringshard/model/in_batch.hpp"

#include <ATen/ops/argmax.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros_like.h>

#include "ringshard/ops/device_copies.hpp"

namespace ringshard::model {

namespace {

constexpr double smallest_length = 1e-12;  // torch.nn.functional.normalize's

at::Tensor lengths_of(const at::Tensor& embeddings) {
    return at::linalg_vector_norm(embeddings, 2, {1}, true).clamp_min_(smallest_length);
}

}  // namespace

RowsOfTexts RowsOfTexts::part(int64_t first, int64_t count) const {
    RowsOfTexts rows;
    for (int64_t row = first; row < first + count; ++row)
        rows.add(starts[static_cast<size_t>(row) + 1] - starts[static_cast<size_t>(row)]);
    return rows;
}

AnchorLosses in_batch_loss(const at::Tensor& embeddings, const RowsOfTexts& rows,
                           std::span<const int64_t> anchors, double temperature) {
    std::vector<int64_t> texts;  // all documents but anchors
    for (int64_t row = 0; row < rows.size(); ++row)
        for (int64_t document = rows.starts[static_cast<size_t>(row)] + 1;
             document < rows.starts[static_cast<size_t>(row) + 1]; ++document)
            texts.push_back(document);
    std::vector<int64_t> own;        // documents
    std::vector<int64_t> positives;  // among the texts: each row before has one anchor
    for (const int64_t row : anchors) {
        own.push_back(rows.starts[static_cast<size_t>(row)]);
        positives.push_back(own.back() - row);
    }
    const auto there = [&](const std::vector<int64_t>& numbers) {
        return ops::on_device(numbers, embeddings.device());
    };
    const at::Tensor of_anchors = there(own);
    const at::Tensor of_texts = there(texts);
    const at::Tensor of_positives = there(positives);

    const at::Tensor wide = embeddings.to(at::kDouble);
    const at::Tensor units = wide / lengths_of(wide);
    const at::Tensor a = units.index_select(0, of_anchors);
    const at::Tensor t = units.index_select(0, of_texts);
    const at::Tensor scores = at::matmul(a, t.transpose(0, 1)).div_(temperature);
    const at::Tensor log_p = at::log_softmax(scores, 1);
    const at::Tensor at_positives = of_positives.unsqueeze(1);
    const at::Tensor d_scores = log_p.exp();
    d_scores.scatter_add_(1, at_positives, at::full_like(at_positives, -1, at::kDouble));
    d_scores.div_(temperature);
    const at::Tensor gradients = at::zeros_like(units);
    gradients.index_add_(0, of_anchors, at::matmul(d_scores, t));
    gradients.index_add_(0, of_texts, at::matmul(d_scores.transpose(0, 1), a));
    return {log_p.gather(1, at_positives).squeeze(1).neg_(),
            at::argmax(scores, 1).eq(of_positives).to(at::kDouble), gradients};
}

at::Tensor gradients_of_embeddings(const at::Tensor& embeddings, const at::Tensor& of_units) {
    const at::Tensor wide = embeddings.to(at::kDouble);
    const at::Tensor lengths = lengths_of(wide);
    const at::Tensor units = wide / lengths;
    const at::Tensor along = (units * of_units).sum(1, true);
    return (of_units - units * along) / lengths;
}

}  // namespace ringshard::model
