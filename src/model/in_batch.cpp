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

InBatch::InBatch(const at::Tensor& embeddings, const RowsOfTexts& rows, double temperature)
    : rows_(rows),
      temperature_(temperature),
      units_(embeddings.to(at::kDouble, false, true)) {  // a copy
    units_.div_(lengths_of(units_));
    std::vector<int64_t> texts;
    for (int64_t row = 0; row < rows.size(); ++row)
        for (int64_t document = rows.starts[static_cast<size_t>(row)] + 1;
             document < rows.starts[static_cast<size_t>(row) + 1]; ++document)
            texts.push_back(document);
    texts_ = there(texts);
    of_texts_ = units_.index_select(0, texts_);
}

at::Tensor InBatch::there(const std::vector<int64_t>& numbers) const {
    return ops::on_device(numbers, units_.device());
}

InBatch::Compared InBatch::compare(std::span<const int64_t> anchors) const {
    std::vector<int64_t> own;
    std::vector<int64_t> positives;  // each row before has one anchor
    for (const int64_t row : anchors) {
        own.push_back(rows_.starts[static_cast<size_t>(row)]);
        positives.push_back(own.back() - row);
    }
    Compared compared{there(own), there(positives), {}, {}, {}};
    compared.units = units_.index_select(0, compared.anchors);
    const at::Tensor scores =
        at::matmul(compared.units, of_texts_.transpose(0, 1)).div_(temperature_);
    compared.log_p = at::log_softmax(scores, 1);
    compared.losses = {compared.log_p.gather(1, compared.positives.unsqueeze(1)).squeeze(1).neg_(),
                       at::argmax(scores, 1).eq(compared.positives).to(at::kDouble)};
    return compared;
}

AnchorLosses InBatch::losses_of(std::span<const int64_t> anchors) const {
    return compare(anchors).losses;
}

std::pair<AnchorLosses, at::Tensor> InBatch::learn(std::span<const int64_t> anchors) const {
    const Compared compared = compare(anchors);
    const at::Tensor places = compared.positives.unsqueeze(1);
    const at::Tensor d_scores = compared.log_p.exp();
    d_scores.scatter_add_(1, places, at::full_like(places, -1, at::kDouble));
    d_scores.div_(temperature_);
    const at::Tensor gradients = at::zeros_like(units_);
    gradients.index_add_(0, compared.anchors, at::matmul(d_scores, of_texts_));
    gradients.index_add_(0, texts_, at::matmul(d_scores.transpose(0, 1), compared.units));
    return {compared.losses, gradients};
}

at::Tensor gradients_of_embeddings(const at::Tensor& embeddings, const at::Tensor& of_units) {
    const at::Tensor wide = embeddings.to(at::kDouble);
    const at::Tensor lengths = lengths_of(wide);
    const at::Tensor units = wide / lengths;
    const at::Tensor along = (units * of_units).sum(1, true);
    return (of_units - units * along) / lengths;
}

}  // namespace ringshard::model
