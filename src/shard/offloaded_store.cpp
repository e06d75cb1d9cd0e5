#include <deque>
#include <map>

#include "ringshard/base/error.hpp"
#include "ringshard/offload/scratch_file.hpp"
#include "ringshard/shard/flat_store.hpp"

namespace ringshard::shard {

namespace {

class OffloadedStore final : public FlatStore {
public:
    OffloadedStore(const Chunks& chunks, at::ScalarType type, offload::OffloadStore& offload_store)
        : chunks_(chunks), type_(type), offload_store_(offload_store) {
        const auto element_bytes = static_cast<int64_t>(c10::elementSize(type));
        // A shard's chunks lie side by side, so that it can be read at once.
        for (size_t unit = 0; unit < chunks.num_units(); ++unit) {
            const int64_t offset =
                offload_store_.reserve(chunks.shard(unit).size() * element_bytes);
            shard_offsets_.push_back(offset);
            for (size_t chunk = chunks.first_of(unit); chunk < chunks.end_of(unit); ++chunk) {
                const int64_t before = chunks[chunk].range.begin - chunks.shard(unit).begin;
                offsets_.push_back(offset + before * element_bytes);
                RINGSHARD_CHECK(offsets_.back() % offload::page_bytes == 0,
                                "chunk {} does not begin at a page", chunk);
            }
        }
    }
    OffloadedStore(const OffloadedStore&) = delete;
    OffloadedStore& operator=(const OffloadedStore&) = delete;
    ~OffloadedStore() override { end_all(); }

    at::Tensor load(size_t chunk, Access access) override {
        if (access == Access::overwrite)
            return offload_store_.staging_buffer(chunks_[chunk].range.size(), type_);
        at::Tensor numbers = arrive(chunks_read_, chunk, [&] { return read_chunk(chunk); });
        if (chunk + 1 < chunks_.size() && !chunks_read_.contains(chunk + 1))
            chunks_read_.emplace(chunk + 1, read_chunk(chunk + 1));
        return numbers;
    }

    void store(size_t chunk, at::Tensor numbers) override {
        const size_t unit = chunks_[chunk].unit;
        drop(chunks_read_, chunk);
        drop(shards_read_, unit);
        while (writes_.size() >= writes_at_a_time) end_oldest_write();
        const auto transfer =
            offload_store_.write(numbers, static_cast<int64_t>(numbers.nbytes()), offsets_[chunk]);
        writes_.push_back({chunk, {std::move(numbers), transfer}});
    }

    void prefetch(size_t unit) override {
        if (!shards_read_.contains(unit)) shards_read_.emplace(unit, read_shard(unit));
    }

    at::Tensor load_shard(size_t unit) override {
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
        size_t chunk;
        Moving moving;
    };
    using Reads = std::map<size_t, Moving>;

    Moving start_read(int64_t elements, int64_t offset) {
        at::Tensor numbers = offload_store_.staging_buffer(elements, type_);
        const auto transfer =
            offload_store_.read(numbers, static_cast<int64_t>(numbers.nbytes()), offset);
        return {std::move(numbers), transfer};
    }
    Moving read_chunk(size_t chunk) {
        end_writes(chunk, chunk + 1);
        return start_read(chunks_[chunk].range.size(), offsets_[chunk]);
    }
    Moving read_shard(size_t unit) {
        end_writes(chunks_.first_of(unit), chunks_.end_of(unit));
        return start_read(chunks_.shard(unit).size(), shard_offsets_[unit]);
    }

    // Returns the data that was read ahead, or reads it now.
    template <class Read>
    at::Tensor arrive(Reads& reads, size_t key, const Read& read) {
        auto found = reads.extract(key);
        Moving moving = found ? std::move(found.mapped()) : read();
        offload_store_.wait(moving.transfer);
        return std::move(moving.numbers);
    }
    void drop(Reads& reads, size_t key) {
        if (auto found = reads.extract(key)) offload_store_.wait(found.mapped().transfer);
    }

    // A read returns the bytes of earlier writes.
    void end_writes(size_t first_chunk, size_t end_chunk) {
        const auto concerns = [&](const Write& write) {
            return write.chunk >= first_chunk && write.chunk < end_chunk;
        };
        while (std::ranges::any_of(writes_, concerns)) end_oldest_write();
    }
    void end_oldest_write() {
        offload_store_.wait(writes_.front().moving.transfer);
        writes_.pop_front();
    }
    void end_all() {
        while (!writes_.empty()) end_oldest_write();
        while (!chunks_read_.empty()) drop(chunks_read_, chunks_read_.begin()->first);
        while (!shards_read_.empty()) drop(shards_read_, shards_read_.begin()->first);
    }

    const Chunks& chunks_;
    at::ScalarType type_;
    offload::OffloadStore& offload_store_;
    std::vector<int64_t> shard_offsets_;  // of every unit, in the offload store
    std::vector<int64_t> offsets_;        // of every chunk
    Reads chunks_read_;                   // ahead
    Reads shards_read_;
    std::deque<Write> writes_;
};

}  // namespace

std::unique_ptr<FlatStore> keep_offloaded(const Chunks& chunks, at::ScalarType type,
                                          offload::OffloadStore& offload_store) {
    return std::make_unique<OffloadedStore>(chunks, type, offload_store);
}

}  // namespace ringshard::shard
