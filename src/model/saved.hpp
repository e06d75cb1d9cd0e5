#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ringshard/config/activation_policies.hpp"

namespace ringshard::model {

// A tensor that a part of a block makes in the forward pass and needs in the backward pass.
struct SavedSlot {
    size_t number;
    config::ActivationPolicy least;  // of the policies that keep it

    bool is_kept(config::ActivationPolicy policy) const { return policy <= least; }
};

// The tensors of one block and one batch. One that was not kept is undefined, and the backward
// pass makes it again.
class Saved {
public:
    Saved() = default;
    explicit Saved(size_t num_slots) : tensors_(num_slots) {}

    at::Tensor& operator[](const SavedSlot& slot) { return tensors_.at(slot.number); }
    const at::Tensor& operator[](const SavedSlot& slot) const { return tensors_.at(slot.number); }

    // The tensors of all slots, in order.
    std::vector<at::Tensor>& tensors() { return tensors_; }
    const std::vector<at::Tensor>& tensors() const { return tensors_; }

private:
    std::vector<at::Tensor> tensors_;
};

// Collects the slots of a block: each part of it adds its own.
class SavedLayout {
public:
    SavedSlot add(config::ActivationPolicy least) {
        slots_.push_back({slots_.size(), least});
        return slots_.back();
    }
    Saved make() const { return Saved(slots_.size()); }
    void drop(Saved& saved, config::ActivationPolicy policy) const {
        for (const SavedSlot& slot : slots_)
            if (!slot.is_kept(policy)) saved[slot].reset();
    }

private:
    std::vector<SavedSlot> slots_;
};

}  // namespace ringshard::model
