#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ringshard/shard/shard_layout.hpp"

namespace ringshard::shard {

struct TensorSpec {
    std::string name;
    std::vector<int64_t> shape;
};

// The numbers with which a tensor begins where a model is made without weights of its own: normally
// distributed with the deviation of the model, or all the same.
enum class InitialValues { normal, ones, zeros };

// Tensors that lie side by side in a flat buffer, so that they can be used as one matrix too: the
// query, key and value projections. They agree in all but their first dimension.
struct ParameterGroup {
    std::vector<TensorSpec> tensors;
    InitialValues initial = InitialValues::normal;
};

// A group of a unit, named by the layout that it was added to.
struct ParameterId {
    size_t group;
};

// Where a tensor lies in the flat buffer of its unit, in elements.
struct PlacedTensor {
    TensorSpec spec;
    InitialValues initial;
    int64_t offset;
    int64_t size;
};

// What a range of the flat buffer holds of a tensor.
struct TensorPiece {
    const PlacedTensor* tensor;
    int64_t first;     // element of the tensor
    int64_t in_range;  // element of the range
    int64_t size;
};

// What happens to the weights of a unit: a trained one has gradients and states of the optimizer,
// and fp32 weights beside those in the compute type; a frozen one has weights in the compute type
// alone.
enum class Role { trained, frozen };

// The weights of one unit of the model as one flat buffer, and with the same places their gradients
// and moments: matrices first, vectors after them (weight decay is for matrices), every group
// aligned to 64 bytes of the smallest type, the whole filled up so that it can be cut into equal
// parts.
class FlatUnit {
public:
    FlatUnit(std::string name, const std::vector<ParameterGroup>& groups, int64_t num_parts);

    const std::string& name() const { return name_; }
    Role role() const { return role_; }
    void set_role(Role role) { role_ = role; }
    int64_t size() const { return size_; }  // elements, filled up
    int64_t matrices_end() const { return matrices_end_; }
    const std::vector<PlacedTensor>& tensors() const { return tensors_; }

    std::vector<TensorPiece> pieces(const Range& range) const;

    // Returns a group in a flat buffer as one tensor.
    at::Tensor view(const at::Tensor& flat, ParameterId id) const;

private:
    struct PlacedGroup {
        int64_t offset;
        std::vector<int64_t> shape;
    };
    std::string name_;
    Role role_ = Role::trained;
    std::vector<PlacedTensor> tensors_;
    std::vector<PlacedGroup> groups_;  // in the order of the constructor's list
    int64_t matrices_end_ = 0;
    int64_t size_ = 0;
};

// Collects the parameters of a unit: each part of a model adds its own, and keeps the handles.
class UnitLayout {
public:
    // `prefix` stands before the names of all tensors.
    explicit UnitLayout(std::string unit_name, std::string prefix = {})
        : unit_name_(std::move(unit_name)), prefix_(std::move(prefix)) {}

    ParameterId add(ParameterGroup group);
    // Returns the unit, which divides into so many equal parts.
    FlatUnit finish(int64_t num_parts) const { return {unit_name_, groups_, num_parts}; }

private:
    std::string unit_name_;
    std::string prefix_;
    std::vector<ParameterGroup> groups_;
};

// The parameters of a unit, or their gradients (fp32), as views of a flat buffer. The unit outlives
// it. Gradients of a frozen unit have no buffer, and their views are undefined tensors.
class UnitTensors {
public:
    UnitTensors(const FlatUnit& unit, at::Tensor flat) : unit_(&unit), flat_(std::move(flat)) {}

    at::Tensor operator[](ParameterId id) const {
        return flat_.defined() ? unit_->view(flat_, id) : at::Tensor();
    }
    const void* address() const { return flat_.defined() ? flat_.const_data_ptr() : nullptr; }

private:
    const FlatUnit* unit_;
    at::Tensor flat_;
};

}  // namespace ringshard::shard
