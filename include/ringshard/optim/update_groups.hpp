#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/config/optimizer_settings.hpp"
#include "ringshard/shard/flat_unit.hpp"

namespace ringshard::offload {
class OffloadStore;
}
namespace ringshard::shard {
class Zero;
struct Shelf;
}  // namespace ringshard::shard

namespace ringshard::optim {

// A tensor as matrices, one behind the other: its last two dimensions; a vector as one row, and so
// a tensor whose matrices have one row.
struct MatrixShape {
    int64_t count;
    int64_t rows;
    int64_t columns;
    int64_t size() const { return rows * columns; }  // of one
};
MatrixShape matrices_of(const shard::PlacedTensor& tensor);

// A state of an optimizer: one number for each `weights` of them; or a factor, with one number for
// each row of a matrix, or for each column.
struct StateSpec {
    enum class Form { elements, rows, columns };
    std::string name;
    at::ScalarType type = at::kFloat;
    int64_t weights = 1;
    Form form = Form::elements;

    bool is_factor() const { return form != Form::elements; }
    // The shape of the state of a tensor.
    std::vector<int64_t> shape_of(const shard::PlacedTensor& tensor) const;
    // The pieces of a range of a unit, in numbers of the state. Ranges may meet within the weights
    // of a number: it belongs to the one with the last of them. Of a factor: the range has whole
    // matrices, and in_range counts the numbers of the pieces before.
    std::vector<shard::TensorPiece> pieces(const shard::FlatUnit& unit,
                                           const shard::Range& range) const;
};

// Which optimizer updates which weights. The updater of a placement (shard::Placement) is a number
// of this list.
class UpdateGroups {
public:
    explicit UpdateGroups(const config::TrainingSettings& settings);

    shard::UpdateChoice choose(const shard::ParameterGroup& group) const;
    const std::vector<config::Optimizer>& optimizers() const { return optimizers_; }
    const std::vector<config::UpdateRule>& rules() const { return rules_; }
    // An optimizer that updates none of the groups, since it takes other weights alone.
    struct Unused {
        size_t rule;  // that names it; 0: the settings do
        std::string needs;
    };
    std::optional<Unused> find_unused(const std::vector<shard::ParameterGroup>& trained) const;
    // The states that the weights of an updater have.
    std::vector<StateSpec> states_of(size_t updater) const;

private:
    void add(config::Optimizer optimizer);
    // The rule that names the optimizer of a group; 0: the settings do.
    size_t rule_of(const shard::ParameterGroup& group) const;
    config::Optimizer optimizer_of(size_t rule) const;

    config::TrainingSettings settings_;
    std::vector<config::UpdateRule> rules_;
    std::vector<config::Optimizer> optimizers_;
};

// The choice of a run; it owns what it needs.
shard::ChooseUpdate chooser_of(const config::TrainingSettings& settings);

// What an updater is made of. All must outlive it.
struct UpdaterContext {
    const shard::Zero& zero;
    const shard::Shelf& shelf;
    const config::TrainingSettings& settings;
    const UpdateGroups& groups;
    offload::OffloadStore* offload_store;
};

// Bytes of the states of one weight, of the optimizer of the settings, rounded down; factors take
// less.
int64_t state_bytes(const config::TrainingSettings& settings);
// Bytes of one weight that an update reads or writes: master and states both ways, and the
// gradient, which is cleared beside it.
int64_t update_bytes(const config::TrainingSettings& settings);

}  // namespace ringshard::optim
