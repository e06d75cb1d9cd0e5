#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ringshard/shard/shard_layout.hpp"

namespace ringshard::shard {

struct TensorSpec {
    std::string name;
    std::vector<int64_t> shape;
};

// The numbers with which a tensor begins where a model is made without weights of its own: normally
// distributed with the deviation of the model, all the same, or logarithms of uniform numbers from
// 0.01 to 16.
enum class InitialValues { normal, ones, zeros, log_uniform };

// What happens to weights: trained ones have gradients and states of the optimizer, and fp32
// weights beside those in the compute type; frozen ones have weights in the compute type alone.
enum class Role { trained, frozen };

// Tensors that lie side by side in a flat buffer, so that they can be used as one matrix too: the
// query, key and value projections. They agree in all but their first dimension.
struct ParameterGroup {
    std::vector<TensorSpec> tensors;
    InitialValues initial = InitialValues::normal;
    Role role = Role::trained;
    bool is_adapter = false;  // made by a run: the files of a model do not hold it
    bool decays = false;      // vectors that decay as matrices do
    // B, or the magnitudes of an adapter: they decay as matrices do, and have a rate of their own.
    bool is_adapter_output = false;
};

// A group of parameters, named by the layout that it was added to.
struct ParameterId {
    size_t group;
};

// Where a tensor lies in the flat buffer of its unit, in elements.
struct PlacedTensor {
    TensorSpec spec;
    InitialValues initial;
    int64_t offset;
    int64_t size;
    bool is_adapter = false;
};

// The part of a tensor that lies in a range of the flat buffer.
struct TensorPiece {
    const PlacedTensor* tensor;
    int64_t first;     // element of the tensor
    int64_t in_range;  // element of the range
    int64_t size;
};

// Weights of one role of one module (an embedding, a block, a head) as one flat buffer, and with
// the same places their gradients and moments: matrices and vectors that decay first, then the
// outputs of adapters, then vectors (weight decay is for those before them), every group aligned to
// 64 bytes of the smallest type, the whole filled up so that it can be divided into equal parts.
class FlatUnit {
public:
    // Takes the groups of this role. `module` is the number of the module among those of the model.
    FlatUnit(std::string name, const std::vector<ParameterGroup>& groups, int64_t num_parts,
             Role role = Role::trained, size_t module = 0);

    const std::string& name() const { return name_; }
    Role role() const { return role_; }
    size_t module() const { return module_; }
    int64_t size() const { return size_; }  // elements, filled up
    int64_t matrices_end() const { return matrices_end_; }
    int64_t decaying_end() const { return decaying_end_; }
    const std::vector<PlacedTensor>& tensors() const { return tensors_; }

    std::vector<TensorPiece> pieces(const Range& range) const;

    bool holds(ParameterId id) const { return !groups_.at(id.group).shape.empty(); }
    // Returns a group that this unit holds as one tensor in a flat buffer.
    at::Tensor view(const at::Tensor& flat, ParameterId id) const;

private:
    struct PlacedGroup {
        int64_t offset = 0;
        std::vector<int64_t> shape{};  // empty: of the other role
    };
    std::string name_;
    Role role_;
    size_t module_;
    std::vector<PlacedTensor> tensors_;
    std::vector<PlacedGroup> groups_;  // in the order of the constructor's list
    int64_t matrices_end_ = 0;
    int64_t decaying_end_ = 0;
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
    // Returns the unit of the trained parameters and that of the frozen ones, as far as there are
    // such; each divides into num_parts equal parts.
    std::vector<FlatUnit> finish(int64_t num_parts, size_t module = 0) const;

private:
    std::string module_name_;
    std::string prefix_;
    std::vector<ParameterGroup> groups_;
};

// The parameters of a module, or their gradients (fp32), as views of the flat buffers of its units,
// which outlive it. Gradients of frozen parameters have no buffer, and are undefined tensors.
class UnitTensors {
public:
    struct Part {
        const FlatUnit* unit;
        at::Tensor flat;
    };
    UnitTensors(const FlatUnit& unit, at::Tensor flat) : parts_{{&unit, std::move(flat)}} {}
    explicit UnitTensors(std::vector<Part> parts) : parts_(std::move(parts)) {}

    at::Tensor operator[](ParameterId id) const;
    // Returns where the buffers lie: equal lists mean the same memory.
    std::vector<const void*> addresses() const;

private:
    std::vector<Part> parts_;
};

}  // namespace ringshard::shard
