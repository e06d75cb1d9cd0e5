#include <ATen/ops/from_blob.h>

#include <bit>
#include <cmath>

#include "ringshard/hub/weights.hpp"

namespace ringshard::hub {

namespace {

// The rows of one tensor, of which the first `num_stored` were loaded.
struct Rows {
    const shard::PlacedTensor& tensor;
    size_t unit;
    int64_t num_stored;

    int64_t width() const { return tensor.spec.shape.size() > 1 ? tensor.spec.shape.back() : 1; }
    int64_t end_of_stored() const { return num_stored * width(); }
};

// Calls visit(elements, first) for the loaded elements in the ranges that are this rank's alone:
// `first` is the element of the tensor with which they begin. Every element has one such rank.
template <class Visit>
void visit_stored(const Rows& rows, const shard::Zero& zero, const Visit& visit) {
    const auto& [chunks, shards] = zero.weights_at_rest_of(rows.unit);
    for (size_t chunk = chunks.first_of(rows.unit); chunk < chunks.end_of(rows.unit); ++chunk) {
        const shard::Range& range = chunks[chunk].range;
        const shard::Range mine = intersect(zero.exclusive_range(rows.unit), range);
        for (const shard::TensorPiece& piece : zero.units()[rows.unit].pieces(mine)) {
            const int64_t count = std::min(piece.size, rows.end_of_stored() - piece.first);
            if (piece.tensor != &rows.tensor || count <= 0) continue;
            const at::Tensor numbers =
                shards.load(chunk, shard::Access::read)
                    .narrow(0, mine.begin - range.begin + piece.in_range, count)
                    .cpu()
                    .to(at::kFloat);
            visit(std::span(static_cast<const float*>(numbers.data_ptr()),
                            static_cast<size_t>(count)),
                  piece.first);
        }
    }
}

// The mean of the loaded rows. Every element is rounded to a multiple of one power of two, so small
// that this loses nothing that a mean in fp32 shows, and so large that sums of them are exact: the
// mean does not depend on the order of the additions, nor on the layout.
std::vector<float> mean_row(const Rows& rows, const shard::Zero& zero, const comm::Group& world) {
    float most = 0;
    visit_stored(rows, zero, [&](std::span<const float> elements, int64_t) {
        for (const float element : elements) most = std::max(most, std::abs(element));
    });
    most = std::bit_cast<float>(static_cast<int32_t>(world.maximum(std::bit_cast<int32_t>(most))));
    int exponent = 0;
    std::frexp(most, &exponent);  // most < 2^exponent
    constexpr int exact_bits = 52;
    const int row_bits = std::bit_width(static_cast<uint64_t>(rows.num_stored));
    const double scale = std::ldexp(1.0, exact_bits - row_bits - exponent);
    std::vector<double> sums(static_cast<size_t>(rows.width()));
    visit_stored(rows, zero, [&](std::span<const float> elements, int64_t first) {
        auto column = static_cast<size_t>(first % rows.width());
        for (const float element : elements) {
            sums[column] += std::nearbyint(static_cast<double>(element) * scale);
            column = column + 1 == sums.size() ? 0 : column + 1;
        }
    });
    std::vector<float> mean;
    for (const double sum : world.sum(std::move(sums)))
        mean.push_back(static_cast<float>(sum / scale / static_cast<double>(rows.num_stored)));
    return mean;
}

void set_rows(const Rows& rows, const std::vector<float>& value, shard::Zero& zero) {
    const auto& [chunks, shards] = zero.weights_at_rest_of(rows.unit);
    for (size_t chunk = chunks.first_of(rows.unit); chunk < chunks.end_of(rows.unit); ++chunk) {
        for (const shard::TensorPiece& piece :
             zero.units()[rows.unit].pieces(chunks[chunk].range)) {
            const int64_t begin = std::max(piece.first, rows.end_of_stored());
            const int64_t count = piece.first + piece.size - begin;
            if (piece.tensor != &rows.tensor || count <= 0) continue;
            std::vector<float> elements;
            elements.reserve(static_cast<size_t>(count));
            for (int64_t element = begin; element < begin + count; ++element)
                elements.push_back(value[static_cast<size_t>(element % rows.width())]);
            const at::Tensor numbers = shards.load(chunk, shard::Access::read);
            numbers.narrow(0, piece.in_range + begin - piece.first, count)
                .copy_(at::from_blob(elements.data(), {count}, at::TensorOptions(at::kFloat)));
            shards.store(chunk, numbers);
        }
    }
}

}  // namespace

void set_added_rows(const model::ModelSpec& spec, shard::Zero& zero, const comm::Group& world) {
    if (spec.vocabulary <= spec.stored_vocabulary) return;
    for (size_t unit = 0; unit < zero.units().size(); ++unit) {
        for (const shard::PlacedTensor& tensor : zero.units()[unit].tensors()) {
            if (!spec.has_row_for_each_token(tensor.spec.name)) continue;
            const Rows rows{tensor, unit, spec.stored_vocabulary};
            set_rows(rows, mean_row(rows, zero, world), zero);
        }
    }
}

}  // namespace ringshard::hub
