#include "non_finite.hpp"
#include "ringshard/config/training_settings.hpp"

#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <limits>

namespace ringshard::train {

namespace {

constexpr int64_t none = std::numeric_limits<int64_t>::max();

bool is_finite(const at::Tensor& values) { return at::isfinite(values).all().item<bool>(); }

// The number of the first bad tensor in this rank's range, counted over all units.
int64_t first_bad_here(const shard::Zero& zero) {
    std::vector<int64_t> tensors_before{0};  // of every unit
    for (const shard::FlatUnit& unit : zero.units())
        tensors_before.push_back(tensors_before.back() + std::ssize(unit.tensors()));
    int64_t first = none;
    for (const shard::Shelf& shelf : zero.shelves())
        for (size_t chunk = 0; shelf.gradients && chunk < shelf.chunks.size(); ++chunk) {
            const auto& [unit, range] = shelf.chunks[chunk];
            const auto& tensors = zero.units()[unit].tensors();
            const at::Tensor gradient = shelf.gradients->load(chunk, shard::Access::read);
            for (const shard::TensorPiece& piece : zero.units()[unit].pieces(range))
                if (!is_finite(gradient.narrow(0, piece.in_range, piece.size)))
                    first = std::min(first, tensors_before[unit] + (piece.tensor - tensors.data()));
        }
    return first;
}

std::string name_of(const shard::Zero& zero, int64_t number) {
    for (const shard::FlatUnit& unit : zero.units()) {
        const auto count = static_cast<int64_t>(unit.tensors().size());
        if (number < count) return unit.tensors()[static_cast<size_t>(number)].spec.name;
        number -= count;
    }
    return {};
}

std::string list_rows(const std::vector<int64_t>& rows) {
    constexpr size_t most = 32;
    std::vector<std::string> shown;
    for (size_t i = 0; i < std::min(most, rows.size()); ++i) shown.push_back(concat(rows[i]));
    return join(shown, ", ") +
           (rows.size() > most ? format_text(" and {} more", rows.size() - most) : "");
}

}  // namespace

std::string first_non_finite_gradient(const shard::Zero& zero, const comm::Group& world) {
    return name_of(zero, world.minimum(first_bad_here(zero)));
}

std::string describe(const NonFiniteStep& bad) {
    return format_text(
        "step {}{}: the loss is {} and the norm of the gradient {}{}; rows of the step (from 0, as "
        "trainer inspect shows them): {}",
        bad.step, bad.adapter.empty() ? "" : format_text(" of adapter {}", bad.adapter), bad.loss,
        bad.grad_norm,
        bad.tensor.empty() ? "" : format_text("; the first bad gradient is that of {}", bad.tensor),
        list_rows(bad.rows));
}

std::string describe_no_targets(int64_t step, const std::string& adapter) {
    return format_text(
        "step {}{}: its rows have nothing to learn: none of their tokens is a target with a weight "
        "above 0",
        step, adapter.empty() ? "" : format_text(" of adapter {}", adapter));
}

std::optional<Failure> fail_after_skipping(const config::TrainingSettings& settings,
                                           int64_t in_a_row, const std::string& description) {
    const bool skips = settings.on_nan != config::OnNan::abort;
    if (skips && in_a_row <= settings.max_skipped_steps) return std::nullopt;
    return Failure{
        ExitCode::bad_numbers,
        format_text(
            "{}{}. The weights are as before this step, and nothing was saved since the last "
            "checkpoint. Lower learning_rate, set max_grad_norm, or look at these rows",
            description,
            skips
                ? format_text(". That is {} steps in a row, more than max_skipped_steps", in_a_row)
                : "")};
}

}  // namespace ringshard::train
