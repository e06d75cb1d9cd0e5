#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ringshard/shard/nf4_layout.hpp"
#include "ringshard/shard/shard_layout.hpp"

namespace ringshard::shard {

struct TensorSpec {
    std::string name;
    std::vector<int64_t> shape;
};

// The initial values of a tensor in a model with random weights: normally distributed with the
// deviation of the model, constant, logarithms of uniform numbers from 0.01 to 16 or of 1, 2, 3 and
// so on, or the number whose softplus is 0.8 or 0.3.
enum class InitialValues {
    normal,
    ones,
    zeros,
    log_uniform,
    log_of_places,
    softplus_0_8,
    softplus_0_3
};

// Trained weights have gradients and states of the optimizer, and fp32
// weights beside those in the compute type; frozen weights have the compute type alone.
enum class Role { trained, frozen };

// How weights lie and are gathered: as numbers of the compute type; in fp32, whatever that type is
// (wide); or frozen matrices in four bits, with scales in fp32 or in 8 bits (nested).
enum class Form { numbers, wide, nf4, nested_nf4 };

// Weights that lie in one unit.
struct UnitKind {
    Role role = Role::trained;
    Form form = Form::numbers;
    int64_t num_sections = 1;  // of a unit of experts: the ranks that share them
    // Of a unit with a slice of a block's experts: its number, and that of all slices.
    int64_t slice = 0;
    int64_t num_slices = 1;

    bool is_of_experts() const { return num_sections > 1 || num_slices > 1; }
};

// Tensors that lie side by side in a flat buffer, so that they can be used as one matrix too: the
// query, key and value projections. They agree in all but their first dimension.
struct ParameterGroup {
    std::vector<TensorSpec> tensors;
    InitialValues initial = InitialValues::normal;
    Role role = Role::trained;
    Form form = Form::numbers;
    bool is_adapter = false;  // made by a run: the files of a model do not hold it
    bool decays = false;      // vectors that decay as matrices do
    bool is_bias = false;     // never decays, whatever its shape, and never lies in four bits
    // B, or the magnitudes of an adapter: they decay as matrices do, and have a rate of their own.
    bool is_adapter_output = false;
    // Equally many tensors of each expert, in the order of experts; or one tensor whose first
    // dimension is the experts.
    bool is_of_experts = false;
    size_t adapter = 0;  // which of the adapters that train together; 0 of all other parameters
    // The first product of a backward pass writes its gradient, and the others add to it.
    bool begins_with_product = false;
};

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
    bool is_adapter = false;
    size_t adapter = 0;          // as ParameterGroup has it
    bool begins_before = false;  // in another unit, which has the slice before this one
};

// The part of a tensor that lies in a range of the flat buffer.
struct TensorPiece {
    const PlacedTensor* tensor;
    int64_t first;     // element of the tensor
    int64_t in_range;  // weight of the range
    int64_t size;
};

// Weights of one role and form of one module (an embedding, a block, a head) as one flat buffer,
// and with the same places their gradients and moments: matrices and vectors that decay first, then
// the outputs of adapters, then vectors (weight decay is for those before them), every group
// aligned to 64 bytes of the smallest type, the whole filled up so that it can be divided into
// equal parts. Adapters that train together lie one after the other, each as it would lie in a unit
// of its own. A unit in four bits is a buffer of bytes (Nf4Layout), and each part of it begins with
// a block.
//
// Where ranks share the experts of a block, these are a unit of their own, divided into a section
// for each of the ranks: the matrices of its experts, in the same places in every section. A rank
// gathers its section alone. Or the experts of a block are several units, each with a slice of
// them: as many experts, in order, which are gathered by themselves.
class FlatUnit {
public:
    enum class UpdateKind { decaying, adapter_output, rest };
    // Elements that an optimizer treats alike.
    struct UpdateRange {
        Range range;
        UpdateKind kind;
        size_t adapter;
    };

    // `module` is the number of the module among those of the model.
    FlatUnit(std::string name, const std::vector<ParameterGroup>& groups, int64_t num_parts,
             UnitKind kind = {}, size_t module = 0);

    const std::string& name() const { return name_; }
    Role role() const { return kind_.role; }
    // The places of a unit in four bits; null of other units.
    const Nf4Layout* nf4() const { return nf4_ ? &*nf4_ : nullptr; }
    bool is_wide() const { return kind_.form == Form::wide; }
    size_t module() const { return module_; }
    // Whether it is gathered together with another unit.
    bool comes_with(const FlatUnit& other) const {
        return module_ == other.module_ && stage() == other.stage();
    }
    // Of its module: 0, or the number of its slice of the experts, from 1.
    int64_t stage() const { return kind_.num_slices > 1 ? kind_.slice + 1 : 0; }
    int64_t size() const { return size_; }  // elements, filled up; bytes in four bits
    int64_t num_sections() const { return kind_.num_sections; }
    // Elements that a rank gathers and computes with: all, unless the unit has sections.
    int64_t section_size() const { return size_ / kind_.num_sections; }
    // In the order of the buffer, which they fill; three of each adapter.
    const std::vector<UpdateRange>& update_ranges() const { return update_ranges_; }
    size_t num_adapters() const { return update_ranges_.back().adapter + 1; }
    // The elements of one of the adapters that train together.
    Range adapter_range(size_t adapter) const {
        return {update_ranges_[3 * adapter].range.begin, update_ranges_[3 * adapter + 2].range.end};
    }
    // The ends of the ranges of the first adapter, or of the only one.
    int64_t matrices_end() const { return update_ranges_[0].range.end; }
    int64_t decaying_end() const { return update_ranges_[1].range.end; }
    const std::vector<PlacedTensor>& tensors() const { return tensors_; }

    std::vector<TensorPiece> pieces(const Range& range) const;

    bool holds(ParameterId id) const { return !groups_.at(id.group).shape.empty(); }
    // Returns a group that this unit holds as one tensor: a view of the flat buffer, or of a
    // section. Of a unit in four bits, a new tensor of this type, with the weights that the codes
    // stand for.
    at::Tensor view(const at::Tensor& flat, ParameterId id, at::ScalarType type) const;

    // Returns, for each group, whether a product writes the first values of its gradient; and the
    // ranges of the buffer without such a group.
    const std::vector<bool>& begun_by_products() const { return begun_by_products_; }
    std::vector<Range> begun_with_zeros() const;

private:
    struct PlacedGroup {
        int64_t offset = 0;
        std::vector<int64_t> shape{};  // empty: of another kind
        size_t first_tensor = 0;
        size_t num_tensors = 0;
    };
    // A tensor in the buffer, or the part of it that lies in one section.
    struct Placement {
        size_t tensor;
        int64_t first;  // element of the tensor
        int64_t offset;
        int64_t size;
    };
    static UpdateKind kind_of(const ParameterGroup& group);
    bool is_of_this_kind(const ParameterGroup& group) const;
    void place_all(const std::vector<ParameterGroup>& groups, int64_t num_parts);
    void place(const std::vector<ParameterGroup>& groups, UpdateKind kind, size_t adapter);
    void place_experts(const std::vector<ParameterGroup>& groups, int64_t num_parts);
    void place_slice(const std::vector<ParameterGroup>& groups, int64_t num_parts);
    // Places one of equal parts of the experts, for the buffer's first part or a later one.
    struct Part {
        int64_t number;
        int64_t count;
        bool is_first;
    };
    void place_part(size_t g, const ParameterGroup& group, const Part& part, int64_t begin);
    void add_tensor(const ParameterGroup& group, const TensorSpec& spec, size_t adapter);
    void all_decays();
    void place_in_four_bits(int64_t num_parts);  // what is placed, if it lies so
    at::Tensor dense(const at::Tensor& flat, const PlacedGroup& group, at::ScalarType type) const;

    std::string name_;
    UnitKind kind_;
    size_t module_;
    std::optional<Nf4Layout> nf4_;
    std::vector<PlacedTensor> tensors_;
    std::vector<Placement> placements_;  // in the order of the buffer
    std::vector<PlacedGroup> groups_;    // in the order of the constructor's list
    std::vector<bool> begun_by_products_;
    std::vector<UpdateRange> update_ranges_;
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
    Role role_of(ParameterId id) const { return groups_.at(id.group).role; }
    // Freezes these tensors. Those of a group must be frozen together.
    void freeze(const std::set<std::string>& names);
    // Gives this form to the frozen matrices of the model.
    void set_form(Form form);
    // Returns the units of the trained parameters and of the frozen ones, by their form; each
    // divides into num_parts equal parts. The experts are units of their own if several ranks share
    // them, or if they are gathered in slices.
    std::vector<FlatUnit> finish(int64_t num_parts, size_t module = 0, int64_t ranks_of_experts = 1,
                                 int64_t slices_of_experts = 1) const;

private:
    std::string module_name_;
    std::string prefix_;
    std::vector<ParameterGroup> groups_;
};

// The parameters of a module, or their gradients (fp32), as views of the flat buffers of its units,
// which outlive it. Gradients of frozen parameters have no buffer, and are undefined tensors.
// Each access to a parameter in four bits dequantises it into a new tensor, which the caller
// releases after its use.
class UnitTensors {
public:
    struct Part {
        const FlatUnit* unit;
        at::Tensor flat;
        at::ScalarType type = at::kFloat;  // of weights that lie in four bits
        // For gradients: true for each group whose buffer still has old values, since nothing was
        // added in this step. Null if there is no such group.
        std::vector<bool>* unbegun = nullptr;
    };
    UnitTensors(const FlatUnit& unit, at::Tensor flat) : parts_{{&unit, std::move(flat)}} {}
    explicit UnitTensors(std::vector<Part> parts) : parts_(std::move(parts)) {}

    // A gradient to which nothing was added is set to 0 first.
    at::Tensor operator[](ParameterId id) const;
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
