#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "matrices.hpp"
#include "optimizer_kinds.hpp"
#include "ringshard/comm/communicator.hpp"
#include "ringshard/ops/flat.hpp"

namespace ringshard::optim {

namespace {

// As transformers' Trainer makes it: without relative steps and a first moment.
constexpr double decay_rate = -0.8;  // power of the step: what the factors forget
constexpr double least_square = 1e-30;
constexpr double most_root_mean_square = 1;  // of an update

// Calls visit(row, column, block) on the rows of a matrix that a flat range of it has: rows of all
// columns, several at a time, and parts of rows before and behind.
template <class Visit>
void for_rows(const at::Tensor& flat, int64_t first, int64_t columns, Visit visit) {
    constexpr int64_t most = int64_t{1} << 22;  // elements, of which operators make copies
    for (int64_t done = 0; done < flat.numel();) {
        const int64_t left = flat.numel() - done;
        const int64_t row = (first + done) / columns;
        const int64_t column = (first + done) % columns;
        const bool is_part = column > 0 || left < columns;
        const int64_t rows =
            is_part ? 1 : std::min(left / columns, std::max<int64_t>(1, most / columns));
        const int64_t width = is_part ? std::min(columns - column, left) : columns;
        visit(row, column, flat.narrow(0, done, rows * width).view({rows, width}));
        done += rows * width;
    }
}

// The second moment of a matrix is the product of one number for each row and one for each column.
// Ranks that divide a matrix add up the sums of its rows and columns, then the squares of its
// update, and hold the whole factors each. The gradient shards hold what is not yet the update.
class Adafactor final : public Updater {
public:
    explicit Adafactor(const UpdaterContext& context)
        : Updater(context), matrices_(matrices_of(context.zero, context.shelf)) {
        int64_t rows_before = 0;  // this unit
        int64_t columns_before = 0;
        for (const Matrix& matrix : matrices_) {
            if (places_.empty() || matrix.unit != matrices_[places_.size() - 1].unit) {
                rows_before = num_rows_;
                columns_before = num_columns_;
            }
            places_.push_back(
                {num_rows_, num_columns_, num_rows_ - rows_before, num_columns_ - columns_before});
            num_rows_ += matrix.rows;
            num_columns_ += matrix.columns;
        }
        if (!matrices_.empty()) ranks_ = zero().shard_ranks(matrices_.front().unit);
    }

    // Collective over the ranks that divide the units.
    void step(const Step& step) override {
        const at::TensorOptions options = at::TensorOptions(zero().device()).dtype(at::kFloat);
        const at::Tensor rows = at::zeros({num_rows_}, options);
        const at::Tensor columns = at::zeros({num_columns_}, options);
        for_gradients(step, [&](size_t number, int64_t first, const at::Tensor& gradient) {
            gradient.mul_(step.updates[matrices_[number].variant]->gradient_scale);
            const Places& places = places_[number];
            for_rows(
                gradient, first, matrices_[number].columns,
                [&](int64_t row, int64_t column, const at::Tensor& block) {
                    const at::Tensor squares = block.square();
                    rows.narrow(0, places.row + row, block.size(0)).add_(squares.sum(1));
                    columns.narrow(0, places.column + column, block.size(1)).add_(squares.sum(0));
                });
        });
        add_up(rows);
        add_up(columns);
        for (size_t number = 0; number < matrices_.size(); ++number)
            if (step.updates[matrices_[number].variant])
                average(number, rows, columns, step.number);
        clips_ = at::zeros({std::ssize(matrices_)}, options);
        for_gradients(step, [&](size_t number, int64_t first, const at::Tensor& gradient) {
            divide(number, first, gradient);
        });
        add_up(clips_);
        clips_.sqrt_().div_(most_root_mean_square).clamp_min_(1).reciprocal_();
        Updater::step(step);
    }

private:
    // Where the numbers of a matrix lie: among those of all of them, and in the factors of its
    // unit.
    struct Places {
        int64_t row;
        int64_t column;
        int64_t row_in_unit;
        int64_t column_in_unit;
    };

    size_t first_in(size_t unit, const shard::Range& range) const {
        const auto first = std::ranges::partition_point(matrices_, [&](const Matrix& matrix) {
            return matrix.unit < unit || (matrix.unit == unit && matrix.range.end <= range.begin);
        });
        return static_cast<size_t>(first - matrices_.begin());
    }

    // Calls visit(number, part) for the matrices in a range of a unit.
    template <class Visit>
    void for_parts(size_t unit, const shard::Range& range, Visit visit) const {
        for (size_t number = first_in(unit, range); number < matrices_.size(); ++number) {
            const shard::Range part = intersect(matrices_[number].range, range);
            if (matrices_[number].unit != unit || part.size() == 0) return;
            visit(number, part);
        }
    }

    // Calls visit(number of the matrix, first element of it, gradient) for all parts that have an
    // update.
    template <class Visit>
    void for_gradients(const Step& step, Visit visit) const {
        for (size_t chunk = 0; chunk < shelf().chunks.size(); ++chunk) {
            const auto& [unit, range] = shelf().chunks[chunk];
            at::Tensor gradient = shelf().gradients->load(chunk, shard::Access::read);
            for_parts(unit, range, [&](size_t number, const shard::Range& part) {
                if (step.updates[matrices_[number].variant])
                    visit(number, part.begin - matrices_[number].range.begin,
                          gradient.narrow(0, part.begin - range.begin, part.size()));
            });
            shelf().gradients->store(chunk, std::move(gradient));
        }
    }

    void add_up(const at::Tensor& numbers) const {
        if (ranks_ != nullptr) ranks_->all_reduce(numbers).wait();
    }

    // A factor of a matrix, which lies in memory.
    at::Tensor factor(StateSpec::Form form, size_t number) const {
        const bool is_of_rows = form == StateSpec::Form::rows;
        const State& state = states()[is_of_rows ? 0 : 1];
        const Matrix& matrix = matrices_[number];
        return state.numbers->load(state.chunks->first_of(matrix.unit), shard::Access::read)
            .narrow(0, is_of_rows ? places_[number].row_in_unit : places_[number].column_in_unit,
                    is_of_rows ? matrix.rows : matrix.columns);
    }

    // Averages the means of the squares of a matrix into its factors.
    void average(size_t number, const at::Tensor& rows, const at::Tensor& columns,
                 int64_t step) const {
        const Matrix& matrix = matrices_[number];
        const double takes = std::pow(static_cast<double>(step), decay_rate);
        const auto add = [&](StateSpec::Form form, const at::Tensor& sums, int64_t count) {
            factor(form, number)
                .mul_(1 - takes)
                .add_(sums.div(static_cast<double>(count)).add_(least_square), takes);
        };
        add(StateSpec::Form::rows, rows.narrow(0, places_[number].row, matrix.rows),
            matrix.columns);
        add(StateSpec::Form::columns, columns.narrow(0, places_[number].column, matrix.columns),
            matrix.rows);
    }

    // Divides a part of a gradient by the root of the second moment, and adds its mean square.
    void divide(size_t number, int64_t first, const at::Tensor& gradient) const {
        const Matrix& matrix = matrices_[number];
        const at::Tensor rows = factor(StateSpec::Form::rows, number);
        const at::Tensor of_rows = rows.div(rows.mean()).rsqrt_().unsqueeze(1);
        const at::Tensor of_columns = factor(StateSpec::Form::columns, number).rsqrt();
        const at::Tensor clip = clips_.narrow(0, static_cast<int64_t>(number), 1);
        for_rows(gradient, first, matrix.columns,
                 [&](int64_t row, int64_t column, const at::Tensor& block) {
                     block.mul_(of_rows.narrow(0, row, block.size(0)))
                         .mul_(of_columns.narrow(0, column, block.size(1)));
                     clip.add_(block.square().sum().div_(static_cast<double>(matrix.range.size())));
                 });
    }

    void update(const Slice& slice, const StepSize& size) const override {
        for_parts(slice.unit, slice.range, [&](size_t number, const shard::Range& part) {
            const auto narrow = [&](const at::Tensor& flat) {
                return flat.narrow(0, part.begin - slice.range.begin, part.size());
            };
            narrow(slice.weights)
                .mul_(1 - size.learning_rate * size.weight_decay)
                .addcmul_(narrow(slice.gradient), clips_.narrow(0, static_cast<int64_t>(number), 1),
                          -size.learning_rate);
        });
        if (slice.rounded.defined()) ops::cast(slice.rounded, slice.weights);
    }

    std::vector<Matrix> matrices_;
    std::vector<Places> places_;
    int64_t num_rows_ = 0;
    int64_t num_columns_ = 0;
    comm::Communicator* ranks_ = nullptr;  // that divide the units; null: nobody does
    at::Tensor clips_;  // by matrix: the mean square of its update, then its factor
};

bool is_factored(const shard::ParameterGroup& group) { return !is_stack_of_vectors(group); }

}  // namespace

OptimizerKind kinds::adafactor(const config::TrainingSettings&) {
    using Form = StateSpec::Form;
    return {.states = {{.name = "exp_avg_sq_row", .form = Form::rows},
                       {.name = "exp_avg_sq_col", .form = Form::columns}},
            .make = &make_updater<Adafactor>,
            .takes = &is_factored,
            .others = config::Optimizer::adamw};
}

}  // namespace ringshard::optim
