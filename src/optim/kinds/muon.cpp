#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>

#include <algorithm>
#include <cmath>

#include "matrices.hpp"
#include "matrix_owners.hpp"
#include "optimizer_kinds.hpp"
#include "ringshard/comm/communicator.hpp"
#include "ringshard/ops/flat.hpp"

namespace ringshard::optim {

namespace {

// The nearest matrix with orthonormal rows or columns, nearly, of a matrix in bf16, as
// torch.optim.Muon computes it.
at::Tensor orthogonalized(const at::Tensor& matrix, int64_t steps) {
    constexpr double a = 3.4445;
    constexpr double b = -4.7750;
    constexpr double c = 2.0315;
    constexpr double epsilon = 1e-7;
    const bool is_tall = matrix.size(0) > matrix.size(1);
    at::Tensor x = is_tall ? matrix.t() : matrix;
    x = x.div(x.norm().clamp_min(epsilon));
    for (int64_t step = 0; step < steps; ++step) {
        const at::Tensor gram = at::matmul(x, x.t());
        x = at::addmm(x, at::addmm(gram, gram, gram, b, c), x, a);
    }
    return is_tall ? x.t() : x;
}

// Each step averages gradients into the momentum, element by element on the shards; orthogonalizes
// whole matrices, each on one of the ranks that divide it; and updates the shards. The gradient
// shards hold what is not yet the update.
class Muon final : public Updater {
public:
    explicit Muon(const UpdaterContext& context)
        : Updater(context),
          arguments_(config::read_optim_args(context.settings, config::Optimizer::muon).value()),
          matrices_(matrices_of(context.zero, context.shelf)) {
        if (!matrices_.empty()) ranks_ = zero().shard_ranks(matrices_.front().unit);
        std::vector<double> works;
        for (const Matrix& matrix : matrices_)
            works.push_back(
                orthogonalization_work(matrix.rows, matrix.columns, arguments_.ns_steps));
        of_ranks_ = distribute_matrices(works, ranks_ == nullptr ? 1 : ranks_->size());
        for (const std::vector<size_t>& of_rank : of_ranks_) {
            double work = 0;
            for (const size_t matrix : of_rank) work += works[matrix];
            most_work_ = std::max(most_work_, work);
        }
    }

    double product_operations() const override { return most_work_; }

    void step(const Step& step) override {
        average(step);
        size_t rounds = 0;
        for (const std::vector<size_t>& of_rank : of_ranks_)
            rounds = std::max(rounds, of_rank.size());
        for (size_t round = 0; round < rounds; ++round) orthogonalize(round, step);
        Updater::step(step);
    }

private:
    // Averages the gradients into the momentum; what is to be orthogonalized takes their place.
    void average(const Step& step) const {
        shard::FlatStore& momenta = *states().front().numbers;
        for (size_t chunk = 0; chunk < shelf().chunks.size(); ++chunk) {
            const auto& [unit, range] = shelf().chunks[chunk];
            at::Tensor gradient = shelf().gradients->load(chunk, shard::Access::read);
            at::Tensor momentum = momenta.load(chunk, shard::Access::read);
            const shard::FlatUnit& layout = zero().units()[unit];
            for (size_t variant = 0; variant < layout.num_variants(); ++variant) {
                const shard::Range mine = intersect(layout.variant_range(variant), range);
                if (mine.size() == 0 || !step.updates[variant]) continue;
                const auto part = [&](const at::Tensor& numbers) {
                    return numbers.narrow(0, mine.begin - range.begin, mine.size());
                };
                average(part(gradient), part(momentum), step.updates[variant]->gradient_scale);
            }
            momenta.store(chunk, std::move(momentum));
            shelf().gradients->store(chunk, std::move(gradient));
        }
    }

    void average(const at::Tensor& gradient, const at::Tensor& momentum, double scale) const {
        if (scale != 1) gradient.mul_(scale);
        momentum.lerp_(gradient, 1 - arguments_.momentum);
        if (arguments_.nesterov)
            gradient.lerp_(momentum, arguments_.momentum);
        else
            gradient.copy_(momentum);
    }

    // The matrix of a rank in a round; null if it has none, or if its variant is not updated.
    const Matrix* matrix_of(size_t rank, size_t round, const Step& step) const {
        if (round >= of_ranks_[rank].size()) return nullptr;
        const Matrix& matrix = matrices_[of_ranks_[rank][round]];
        return step.updates[matrix.variant] ? &matrix : nullptr;
    }

    // Sends the shards of the matrices of a round to their ranks, and the results back. Collective
    // over the ranks that divide the units.
    void orthogonalize(size_t round, const Step& step) const {
        const size_t here = ranks_ == nullptr ? 0 : static_cast<size_t>(ranks_->rank());
        std::vector<at::Tensor> parts;
        comm::RowCounts sent;
        comm::RowCounts received;
        const Matrix* const mine = matrix_of(here, round, step);
        for (size_t rank = 0; rank < of_ranks_.size(); ++rank) {
            const Matrix* const matrix = matrix_of(rank, round, step);
            const shard::Range part = matrix == nullptr ? shard::Range{} : part_of(*matrix, here);
            sent.push_back(part.size());
            if (part.size() > 0) parts.push_back(read(*matrix, part));
            received.push_back(mine == nullptr ? 0 : part_of(*mine, rank).size());
        }
        const at::TensorOptions options = at::TensorOptions(zero().device()).dtype(at::kBFloat16);
        at::Tensor own = parts.empty() ? at::empty({0}, options) : at::cat(parts);
        at::Tensor whole = own;
        if (ranks_ != nullptr) {
            whole = at::empty({mine == nullptr ? 0 : mine->range.size()}, options);
            ranks_->all_to_all_uneven(whole, received, own, sent).wait();
        }
        if (mine != nullptr)
            whole = orthogonalized(whole.view({mine->rows, mine->columns}), arguments_.ns_steps)
                        .reshape({-1})
                        .contiguous();
        if (ranks_ == nullptr)
            own = whole;
        else
            ranks_->all_to_all_uneven(own, sent, whole, received).wait();
        int64_t before = 0;
        for (size_t rank = 0; rank < of_ranks_.size(); ++rank) {
            if (sent[rank] == 0) continue;
            const Matrix& matrix = *matrix_of(rank, round, step);
            write(matrix, part_of(matrix, here), own.narrow(0, before, sent[rank]));
            before += sent[rank];
        }
    }

    // The part of a matrix in the shard of a rank: a range of the unit.
    shard::Range part_of(const Matrix& matrix, size_t rank) const {
        if (ranks_ == nullptr) return matrix.range;
        return intersect(matrix.range, zero().shard_of_rank(matrix.unit, static_cast<int>(rank)));
    }

    // Calls visit(chunk, numbers) on the gradient's chunks that hold a part.
    template <class Visit>
    void for_chunks(const Matrix& matrix, const shard::Range& part, Visit visit) const {
        const shard::Chunks& chunks = shelf().chunks;
        for (size_t chunk = chunks.first_of(matrix.unit); chunk < chunks.end_of(matrix.unit);
             ++chunk) {
            const shard::Range both = intersect(part, chunks[chunk].range);
            if (both.size() == 0) continue;
            const at::Tensor numbers = shelf().gradients->load(chunk, shard::Access::read);
            visit(chunk, numbers,
                  numbers.narrow(0, both.begin - chunks[chunk].range.begin, both.size()),
                  both.begin - part.begin);
        }
    }

    at::Tensor read(const Matrix& matrix, const shard::Range& part) const {
        at::Tensor into =
            at::empty({part.size()}, at::TensorOptions(zero().device()).dtype(at::kBFloat16));
        for_chunks(matrix, part,
                   [&](size_t, const at::Tensor&, const at::Tensor& some, int64_t before) {
                       into.narrow(0, before, some.numel()).copy_(some);
                   });
        return into;
    }

    void write(const Matrix& matrix, const shard::Range& part, const at::Tensor& from) const {
        for_chunks(
            matrix, part,
            [&](size_t chunk, const at::Tensor& all, const at::Tensor& some, int64_t before) {
                some.copy_(from.narrow(0, before, some.numel()));
                shelf().gradients->store(chunk, all);
            });
    }

    void update(const Slice& slice, const StepSize& size) const override {
        for (const shard::TensorPiece& piece : zero().units()[slice.unit].pieces(slice.range)) {
            const std::vector<int64_t>& shape = piece.tensor->spec.shape;
            const double rate =
                size.learning_rate * rate_factor(shape[shape.size() - 2], shape.back());
            const at::Tensor weights = slice.weights.narrow(0, piece.in_range, piece.size);
            weights.mul_(1 - size.learning_rate * size.weight_decay);
            weights.add_(slice.gradient.narrow(0, piece.in_range, piece.size), -rate);
        }
        if (slice.rounded.defined()) ops::cast(slice.rounded, slice.weights);
    }

    double rate_factor(int64_t rows, int64_t columns) const {
        const auto height = static_cast<double>(rows);
        const auto width = static_cast<double>(columns);
        if (arguments_.adjust_lr_fn == config::MuonRate::match_rms_adamw)
            return 0.2 * std::sqrt(std::max(height, width));
        return std::sqrt(std::max(1.0, height / width));
    }

    config::OptimizerArguments arguments_;
    std::vector<Matrix> matrices_;
    comm::Communicator* ranks_ = nullptr;        // that divide the units; null: nobody does
    std::vector<std::vector<size_t>> of_ranks_;  // matrices, by their number
    double most_work_ = 0;                       // operations, of one rank
};

// Matrices inside the model. A tensor of more dimensions is a stack of matrices where its first
// dimension is divided, else no product's weight.
bool is_inner_matrix(const shard::ParameterGroup& group) {
    const size_t dimensions = group.tensors.front().shape.size();
    return group.stand == shard::Stand::inner &&
           group.update_kind() != shard::UpdateKind::at_own_rate &&
           (dimensions == 2 ? !is_stack_of_vectors(group) : dimensions == 3 && group.is_divided);
}

}  // namespace

OptimizerKind kinds::muon(const config::TrainingSettings&) {
    return {.states = {{"momentum_buffer"}},
            .make = &make_updater<Muon>,
            .takes = &is_inner_matrix,
            .others = config::Optimizer::adamw,
            .needs = "matrices between the embedding and the head"};
}

}  // namespace ringshard::optim
