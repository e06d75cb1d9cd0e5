#include <deque>
#include <map>

#include "ringshard/base/error.hpp"
#include "ringshard/offload/scratch_file.hpp"
#include "ringshard/shard/flat_store.hpp"

namespace ringshard::shard {

namespace {

class DepotStore final : public FlatStore {
public:
    DepotStore(const Slots& slots, at::ScalarType type, offload::Depot& depot)
        : slots_(slots), type_(type), depot_(depot) {
        const auto element_bytes = static_cast<int64_t>(c10::elementSize(type));
        // A shard's slots lie side by side, so that it can be read at once.
        for (size_t unit = 0; unit < slots.num_units(); ++unit) {
            const int64_t offset = depot_.reserve(slots.shard(unit).size() * element_bytes);
            shard_offsets_.push_back(offset);
            for (size_t slot = slots.first_of(unit); slot < slots.end_of(unit); ++slot) {
                const int64_t before = slots[slot].range.begin - slots.shard(unit).begin;
                offsets_.push_back(offset + before * element_bytes);
                RINGSHARD_CHECK(offsets_.back() % offload::page_bytes == 0, "slot ", slot,
                                " does not begin at a page");
            }
        }
    }
    DepotStore(const DepotStore&) = delete;
    DepotStore& operator=(const DepotStore&) = delete;
    ~DepotStore() override { end_all(); }

    at::Tensor take(size_t slot, Content content) override {
        if (content == Content::overwritten) return depot_.room(slots_[slot].range.size(), type_);
        at::Tensor numbers = arrive(slots_read_, slot, [&] { return read_slot(slot); });
        if (slot + 1 < slots_.size() && !slots_read_.contains(slot + 1))
            slots_read_.emplace(slot + 1, read_slot(slot + 1));
        return numbers;
    }

    void put_back(size_t slot, at::Tensor numbers) override {
        const size_t unit = slots_[slot].unit;
        drop(slots_read_, slot);
        drop(shards_read_, unit);
        while (writes_.size() >= writes_at_a_time) end_oldest_write();
        const auto transfer =
            depot_.write(numbers, static_cast<int64_t>(numbers.nbytes()), offsets_[slot]);
        writes_.push_back({slot, {std::move(numbers), transfer}});
    }

    void expect(size_t unit) override {
        if (!shards_read_.contains(unit)) shards_read_.emplace(unit, read_shard(unit));
    }

    at::Tensor take_shard(size_t unit) override {
        return arrive(shards_read_, unit, [&] { return read_shard(unit); });
    }

    at::ScalarType type() const override { return type_; }
    int64_t bytes() const override { return 0; }

private:
    static constexpr size_t writes_at_a_time = 2;
    struct Moving {
        at::Tensor numbers;
        offload::Transfer transfer;
    };
    struct Write {
        size_t slot;
        Moving moving;
    };
    using Reads = std::map<size_t, Moving>;

    Moving start_read(int64_t elements, int64_t offset) {
        at::Tensor numbers = depot_.room(elements, type_);
        const auto transfer = depot_.read(numbers, static_cast<int64_t>(numbers.nbytes()), offset);
        return {std::move(numbers), transfer};
    }
    Moving read_slot(size_t slot) {
        end_writes(slot, slot + 1);
        return start_read(slots_[slot].range.size(), offsets_[slot]);
    }
    Moving read_shard(size_t unit) {
        end_writes(slots_.first_of(unit), slots_.end_of(unit));
        return start_read(slots_.shard(unit).size(), shard_offsets_[unit]);
    }

    // What was read ahead, or is read now.
    template <class Read>
    at::Tensor arrive(Reads& reads, size_t key, const Read& read) {
        auto found = reads.extract(key);
        Moving moving = found ? std::move(found.mapped()) : read();
        depot_.wait(moving.transfer);
        return std::move(moving.numbers);
    }
    void drop(Reads& reads, size_t key) {
        if (auto found = reads.extract(key)) depot_.wait(found.mapped().transfer);
    }

    // A read sees what was written before it.
    void end_writes(size_t first_slot, size_t end_slot) {
        const auto concerns = [&](const Write& write) {
            return write.slot >= first_slot && write.slot < end_slot;
        };
        while (std::ranges::any_of(writes_, concerns)) end_oldest_write();
    }
    void end_oldest_write() {
        depot_.wait(writes_.front().moving.transfer);
        writes_.pop_front();
    }
    void end_all() {
        while (!writes_.empty()) end_oldest_write();
        while (!slots_read_.empty()) drop(slots_read_, slots_read_.begin()->first);
        while (!shards_read_.empty()) drop(shards_read_, shards_read_.begin()->first);
    }

    const Slots& slots_;
    at::ScalarType type_;
    offload::Depot& depot_;
    std::vector<int64_t> shard_offsets_;  // of every unit, in the depot
    std::vector<int64_t> offsets_;        // of every slot
    Reads slots_read_;                    // ahead
    Reads shards_read_;
    std::deque<Write> writes_;
};

}  // namespace

std::unique_ptr<FlatStore> keep_in_depot(const Slots& slots, at::ScalarType type,
                                         offload::Depot& depot) {
    return std::make_unique<DepotStore>(slots, type, depot);
}

}  // namespace ringshard::shard
