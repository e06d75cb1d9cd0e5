#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ringshard/shard/code_layout.hpp"
#include "ringshard/shard/placement.hpp"
#include "ringshard/shard/shard_layout.hpp"

namespace ringshard::shard {

struct TensorSpec {
    std::string name;
    std::vector<int64_t> shape;
};

// The initial values of a tensor in a model with random weights: normally distributed with the
// deviation of the model, constant, logarithms of uniform numbers from 0.01 to 16 or of 1, 2, 3 and
// so on, or numbers whose softplus is 0.8, 0.3, or a step: e to a uniform number, from 0.001 to
// 0.1.
enum class InitialValues {
    normal,
    ones,
    zeros,
    log_uniform,
    log_of_places,
    softplus_0_8,
    softplus_0_3,
    softplus_of_steps
};

// How an update treats weights: with weight decay and the rate of the run, with weight decay and a
// rate that may be another, or with such a rate and without decay.
enum class UpdateKind { decaying, decaying_at_own_rate, at_own_rate };

// Where a matrix stands between the input of the model and its output: it is a table whose rows are
// looked up, it makes the outputs, or it does neither.
enum class Stand { table, inner, output };

// Tensors that lie side by side in a flat buffer, so that they can be used as one matrix too: the
// query, key and value projections. They agree in all but their first dimension.
struct ParameterGroup {
    std::vector<TensorSpec> tensors;
    InitialValues initial = InitialValues::normal;
    Placement placement{};
    bool is_made_by_run = false;         // the files of a model do not hold it
    std::optional<UpdateKind> update{};  // if it is not given: matrices decay, vectors do not
    // The rule that changes its update, from 1; 0: none.
    size_t rule = 0;
    // Equally many tensors for each section or slice, in their order; or one tensor whose first
    // dimension is divided into them.
    bool is_divided = false;
    bool is_never_quantised = false;  // it keeps its codec where the matrices of blocks change it
    size_t variant = 0;  // which of the variants that train together; 0 of all other parameters
    Stand stand = Stand::inner;
    // The first operation of a backward pass overwrites its gradient, and the others add to it.
    bool is_overwritten = false;

    UpdateKind update_kind() const;
    // Whether it holds weights of products, or stacks of them, that the files of a model hold.
    bool is_quantisable() const;
};

// The optimizer of a group, and what it asks of the placement.
struct UpdateChoice {
    size_t updater = 0;
    int64_t grain = Placement::least_grain;
    bool keeps_masters = false;
};
using ChooseUpdate = std::function<UpdateChoice(const ParameterGroup&)>;

// A group of parameters, named by the layout that it was added to.
struct ParameterId {
    size_t group;
};

// Where a tensor lies in the flat buffer of its unit, in weights: elements of the buffer, or half
// bytes of one in four bits. The first part of it, if it has one in each section.
struct PlacedTensor {
    TensorSpec spec;
    InitialValues initial;
    int64_t offset;
    int64_t size;
    bool is_made_by_run = false;  // as ParameterGroup has it, and the variant
    size_t variant = 0;
    bool begins_before = false;  // in another unit, which has the slice before this one
};

// The part of a tensor that lies in a range of the flat buffer.
struct TensorPiece {
    const PlacedTensor* tensor;
    int64_t first;     // element of the tensor
    int64_t in_range;  // weight of the range
    int64_t size;
};

// Weights of one placement and one module (an embedding, a block, a head) as one flat buffer, and
// with the same places their gradients and moments: by the kind and the rule of their update,
// every group aligned to the grain, the whole filled up so that it can be divided into equal parts.
// Variants that train together lie one after the other, each as it would lie in a unit of its own.
// A unit of codes is a buffer of bytes (CodeLayout), or several of them, one for each section; in
// four bits each part of it begins with a block. A stack of matrices lies there matrix by matrix.
//
// A unit with sections holds the same part of every divided tensor in each of them, in the same
// places; a rank gathers its section alone. Or the divided tensors of a module are several units,
// each with a slice of them, which are gathered by themselves.
class FlatUnit {
public:
    // Elements that an optimizer treats alike.
    struct UpdateRange {
        Range range;
        UpdateKind kind;
        size_t rule;
        size_t variant;
    };
    // A slice of the divided tensors of a module: its number, and that of all slices.
    struct Slice {
        int64_t number = 0;
        int64_t count = 1;
    };

    // `module` is the number of the module among those of the model.
    FlatUnit(std::string name, const std::vector<ParameterGroup>& groups, int64_t num_parts,
             const Placement& placement = {}, size_t module = 0);
    FlatUnit(std::string name, const std::vector<ParameterGroup>& groups, int64_t num_parts,
             const Placement& placement, size_t module, Slice slice);

    const std::string& name() const { return name_; }
    const Placement& placement() const { return placement_; }
    bool is_trained() const { return placement_.is_trained; }
    // The places of a unit of codes, or of each of its sections; null of other units. The pieces of
    // a section are its matrices, in their order.
    const CodeLayout* codes() const { return codes_ ? &*codes_ : nullptr; }
    size_t module() const { return module_; }
    // Whether it is gathered together with another unit.
    bool comes_with(const FlatUnit& other) const {
        return module_ == other.module_ && stage() == other.stage();
    }
    // Of its module: 0, or the number of its slice, from 1.
    int64_t stage() const { return slice_.count > 1 ? slice_.number + 1 : 0; }
    int64_t size() const { return size_; }  // elements, filled up; bytes of codes
    int64_t num_sections() const { return placement_.num_sections; }
    // Elements that a rank gathers and computes with: all, unless the unit has sections.
    int64_t section_size() const { return size_ / placement_.num_sections; }
    // In the order of the buffer, which they fill: of each variant the three kinds without a rule,
    // then those with rules.
    const std::vector<UpdateRange>& update_ranges() const { return update_ranges_; }
    size_t num_variants() const { return variants_.size(); }
    // The elements of one of the variants that train together.
    Range variant_range(size_t variant) const { return variants_[variant]; }
    // The ends of the ranges without a rule, of the first variant or of the only one.
    int64_t matrices_end() const { return update_ranges_[0].range.end; }
    int64_t decaying_end() const { return update_ranges_[1].range.end; }
    const std::vector<PlacedTensor>& tensors() const { return tensors_; }

    std::vector<TensorPiece> pieces(const Range& range) const;

    bool holds(ParameterId id) const { return !groups_.at(id.group).shape.empty(); }
    // Returns a group that this unit holds as one tensor: a view of the flat buffer, or of a
    // section. Of a unit of codes, a new tensor of this type, with the weights that the codes
    // stand for. `slice`: one of equal slices of its first dimension, in whole matrices.
    at::Tensor view(const at::Tensor& flat, ParameterId id, at::ScalarType type,
                    const Slice& slice) const;
    at::Tensor view(const at::Tensor& flat, ParameterId id, at::ScalarType type) const {
        return view(flat, id, type, {});
    }

    // Returns, for each group, whether the first operation overwrites its gradient; and the ranges
    // of the buffer without such a group.
    const std::vector<bool>& overwritten() const { return overwritten_; }
    std::vector<Range> begun_with_zeros() const;

private:
    struct PlacedGroup {
        int64_t offset = 0;
        std::vector<int64_t> shape{};  // empty: of another kind
        size_t first_part = 0;         // of this group in a section
        size_t num_parts = 0;
    };
    // A tensor in the buffer, the part of it that lies in one section, or a matrix of codes.
    struct PlacedPart {
        size_t tensor;
        int64_t first;  // element of the tensor
        int64_t offset;
        int64_t size;
    };
    bool is_of_this_unit(const ParameterGroup& group) const;
    void place_all(const std::vector<ParameterGroup>& groups, int64_t num_parts);
    void place(const std::vector<ParameterGroup>& groups, UpdateKind kind, size_t rule,
               size_t variant);
    void place_sections(const std::vector<ParameterGroup>& groups, int64_t num_parts);
    void place_slice(const std::vector<ParameterGroup>& groups, int64_t num_parts);
    // Places one of equal parts of the divided tensors, for the buffer's first part or a later one.
    struct Part {
        int64_t number;
        int64_t count;
        int64_t begin;      // in the buffer
        size_t first_part;  // of the placed ones
        bool is_first() const { return begin == 0; }
    };
    void place_parts(const std::vector<ParameterGroup>& groups, int64_t number, int64_t count);
    void place_part(size_t g, const ParameterGroup& group, const Part& part);
    void add_tensor(const ParameterGroup& group, const TensorSpec& spec, size_t variant);
    void add_parts(size_t tensor, int64_t first, int64_t size);
    void update_alike(UpdateKind kind, size_t rule);
    void place_codes(int64_t num_parts);  // of what is placed, if it is coded
    at::Tensor dense(const at::Tensor& flat, const PlacedGroup& group, at::ScalarType type,
                     const Slice& slice) const;

    std::string name_;
    Placement placement_;
    Slice slice_;
    size_t module_;
    std::optional<CodeLayout> codes_;
    std::vector<PlacedTensor> tensors_;
    std::vector<PlacedPart> placed_parts_;  // in the order of the buffer
    std::vector<PlacedGroup> groups_;       // in the order of the constructor's list
    std::vector<bool> overwritten_;
    std::vector<UpdateRange> update_ranges_;
    std::vector<Range> variants_;
    int64_t size_ = 0;
};

// Collects the parameters of a module: each part of a model adds its own, and keeps the handles.
class UnitLayout {
public:
    // `prefix` stands before the names of all tensors.
    explicit UnitLayout(std::string module_name, std::string prefix = {})
        : module_name_(std::move(module_name)), prefix_(std::move(prefix)) {}

    ParameterId add(ParameterGroup group);
    const std::string& prefix() const { return prefix_; }
    const std::vector<ParameterGroup>& groups() const { return groups_; }
    bool is_trained(ParameterId id) const { return groups_.at(id.group).placement.is_trained; }
    // Freezes these tensors. Those of a group must be frozen together.
    void freeze(const std::set<std::string>& names);
    // Gives this codec to the frozen groups that are quantisable.
    void set_codec(Codec codec);
    void choose_updates(const ChooseUpdate& choose);  // of the trained groups
    // Gives the groups of these tensors their rules. Tensors of a group have the same rule.
    void set_rules(const std::map<std::string, size_t>& rules);
    // Returns the units of the parameters, one for each placement; each divides into num_parts
    // equal parts. The divided parameters are units of their own if ranks hold sections of them, or
    // if they are gathered in slices.
    std::vector<FlatUnit> finish(int64_t num_parts, size_t module = 0, int64_t num_sections = 1,
                                 int64_t num_slices = 1) const;

private:
    std::string module_name_;
    std::string prefix_;
    std::vector<ParameterGroup> groups_;
};

// The parameters of a module, or their gradients (fp32), as views of the flat buffers of its units,
// which outlive it. Gradients of frozen parameters have no buffer, and are undefined tensors.
// Each access to a parameter of codes dequantises it into a new tensor, which the caller
// releases after its use.
class UnitTensors {
public:
    struct Part {
        const FlatUnit* unit;
        at::Tensor flat;
        at::ScalarType type = at::kFloat;  // of weights that codes stand for
        // For gradients: true for each group whose buffer still has old values, since nothing was
        // added in this step. Null if there is no such group.
        std::vector<bool>* unbegun = nullptr;
    };
    UnitTensors(const FlatUnit& unit, at::Tensor flat) : parts_{{&unit, std::move(flat)}} {}
    explicit UnitTensors(std::vector<Part> parts) : parts_(std::move(parts)) {}

    // Gradients lack those of frozen parameters.
    bool has(ParameterId id) const { return find(id) != nullptr; }
    // A gradient to which nothing was added is set to 0 first.
    at::Tensor operator[](ParameterId id) const;
    // One of equal slices of weights, as FlatUnit::view() has it.
    at::Tensor slice(ParameterId id, const FlatUnit::Slice& slice) const;
    bool is_coded(ParameterId id) const;
    // As above, for a product that overwrites the buffer if `begins` is true.
    struct Sum {
        at::Tensor numbers;
        bool begins;
    };
    Sum sum(ParameterId id) const;
    // These, and those of other units.
    UnitTensors joined(const UnitTensors& others) const;
    // Zeroes all gradients to which nothing was added.
    void begin_all() const;
    // Returns where the buffers lie: equal lists mean the same memory.
    std::vector<const void*> addresses() const;

private:
    const Part* find(ParameterId id) const;

    std::vector<Part> parts_;
};

}  // namespace ringshard::shard
