#include <algorithm>
#include <optional>
#include <vector>

#include "activation_store.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/offload/scratch_file.hpp"

namespace ringshard::model {

namespace {

// Where the tensors of a block lie in its part of the offload store; those that were not kept lie
// nowhere.
struct Packing {
    struct Place {
        int64_t begin = 0;  // bytes
        int64_t bytes = 0;
        std::vector<int64_t> sizes{};
        at::TensorOptions options{};
    };
    std::vector<std::optional<Place>> places;
    int64_t bytes = 0;
};

Packing pack(const Saved& saved) {
    constexpr int64_t alignment = 64;
    Packing packing;
    for (const at::Tensor& tensor : saved.tensors()) {
        auto& place = packing.places.emplace_back();
        if (!tensor.defined()) continue;
        const auto bytes = static_cast<int64_t>(tensor.nbytes());
        place = {packing.bytes, bytes, tensor.sizes().vec(), tensor.options()};
        packing.bytes += (bytes + alignment - 1) / alignment * alignment;
    }
    return packing;
}

at::Tensor view(const at::Tensor& pages, const Packing::Place& place) {
    return pages.narrow(0, place.begin, place.bytes)
        .view(c10::typeMetaToScalarType(place.options.dtype()))
        .view(place.sizes);
}

class OffloadedActivations final : public ActivationStore {
public:
    OffloadedActivations(size_t num_blocks, offload::OffloadStore& offload_store)
        : offload_store_(offload_store), blocks_(num_blocks) {}
    OffloadedActivations(const OffloadedActivations&) = delete;
    OffloadedActivations& operator=(const OffloadedActivations&) = delete;
    ~OffloadedActivations() override {
        end(write_);
        end(read_);
    }

    void store(size_t block, Saved saved) override {
        Packing packing = pack(saved);
        make_room(block, packing.bytes);
        end(write_);  // its room may be this one's
        const at::Tensor pages = offload_store_.staging_buffer(capacity_, at::kByte);
        for (size_t slot = 0; slot < packing.places.size(); ++slot)
            if (const auto& place = packing.places[slot])
                view(pages, *place).copy_(saved.tensors()[slot]);
        blocks_.at(block) = {std::move(packing), offset_of(block)};
        const Block& kept = blocks_[block];
        write_ = Moving{block, pages, offload_store_.write(pages, kept.packing.bytes, kept.offset)};
    }

    void prefetch(size_t block) override {
        if (is(write_, block) || is(read_, block)) return;  // it is here, or on its way
        end(read_);
        const Block& wanted = blocks_.at(block);
        const at::Tensor pages = offload_store_.staging_buffer(capacity_, at::kByte);
        read_ =
            Moving{block, pages, offload_store_.read(pages, wanted.packing.bytes, wanted.offset)};
    }

    Saved load(size_t block) override {
        prefetch(block);
        const at::Tensor pages = end(is(write_, block) ? write_ : read_);
        const Packing& packing = blocks_[block].packing;
        Saved saved(packing.places.size());
        for (size_t slot = 0; slot < packing.places.size(); ++slot)
            if (const auto& place = packing.places[slot])
                saved.tensors()[slot] = view(pages, *place).to(place->options.device());
        return saved;
    }

private:
    struct Moving {
        size_t block;
        at::Tensor pages;
        offload::Transfer transfer;
    };
    struct Block {
        Packing packing;
        int64_t offset = 0;
    };

    static bool is(const std::optional<Moving>& moving, size_t block) {
        return moving && moving->block == block;
    }

    at::Tensor end(std::optional<Moving>& moving) {
        if (!moving) return {};
        offload_store_.wait(moving->transfer);
        at::Tensor pages = std::move(moving->pages);
        moving.reset();
        return pages;
    }

    // Blocks lie one after the other.
    int64_t offset_of(size_t block) const {
        if (block == 0) return 0;
        const Block& before = blocks_[block - 1];
        return before.offset + offload::whole_pages(before.packing.bytes);
    }

    // For this block and, as far as can be known, for those that follow.
    void make_room(size_t block, int64_t bytes) {
        if (bytes > capacity_) {
            end(write_);
            offload_store_.release_free_buffers();  // too small from now on
            capacity_ = bytes;
        }
        const auto blocks_left = static_cast<int64_t>(blocks_.size() - block);
        const int64_t needed = offset_of(block) + blocks_left * offload::whole_pages(bytes);
        if (needed <= offload_store_.bytes()) return;
        offload_store_.reserve(needed - offload_store_.bytes());
        if (auto failure = offload_store_.allocate()) {
            failure->message = format_text("activation_offloading: {}", failure->message);
            throw Error(*failure);
        }
    }

    offload::OffloadStore& offload_store_;
    std::vector<Block> blocks_;
    int64_t capacity_ = 0;         // bytes of a block in memory
    std::optional<Moving> write_;  // of the block that was put last
    std::optional<Moving> read_;   // of the block that is expected
};

}  // namespace

std::unique_ptr<ActivationStore> keep_activations_offloaded(size_t num_blocks,
                                                            offload::OffloadStore& offload_store) {
    return std::make_unique<OffloadedActivations>(num_blocks, offload_store);
}

}  // namespace ringshard::model
