#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "ringshard/config/activation_policies.hpp"

namespace ringshard::model {

// A tensor that a stage of a block makes and another pass, or stage, reads.
struct SavedSlot {
    size_t number;
    // The least of the policies that keep it between the passes; nothing: it lives within one.
    std::optional<config::ActivationPolicy> least;

    bool is_kept(config::ActivationPolicy policy) const { return least && policy <= *least; }
};

// The tensors of one block and one batch. One that was not kept is undefined, and the backward
// pass makes it again.
class Saved {
public:
    Saved() = default;
    explicit Saved(size_t num_slots) : tensors_(num_slots) {}

    at::Tensor& operator[](const SavedSlot& slot) { return tensors_.at(slot.number); }
    const at::Tensor& operator[](const SavedSlot& slot) const { return tensors_.at(slot.number); }
    bool has(const SavedSlot& slot) const { return (*this)[slot].defined(); }
    // Drops what the slots from this one on hold.
    void drop_from(const SavedSlot& slot) {
        for (size_t i = slot.number; i < tensors_.size(); ++i) tensors_[i].reset();
    }

    // The tensors of all slots, in order.
    std::vector<at::Tensor>& tensors() { return tensors_; }
    const std::vector<at::Tensor>& tensors() const { return tensors_; }

private:
    std::vector<at::Tensor> tensors_;
};

// Collects the slots of a block: each stage adds its own.
class SavedLayout {
public:
    SavedSlot add(config::ActivationPolicy least) { return add_slot(least); }
    // One that no policy keeps.
    SavedSlot add_passing() { return add_slot(std::nullopt); }
    Saved make() const { return Saved(slots_.size()); }
    void drop(Saved& saved, config::ActivationPolicy policy) const {
        for (const SavedSlot& slot : slots_)
            if (!slot.is_kept(policy)) saved[slot].reset();
    }

private:
    SavedSlot add_slot(std::optional<config::ActivationPolicy> least) {
        slots_.push_back({slots_.size(), least});
        return slots_.back();
    }
    std::vector<SavedSlot> slots_;
};

}  // namespace ringshard::model
