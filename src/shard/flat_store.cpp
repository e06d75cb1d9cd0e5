#include "ringshard/shard/flat_store.hpp"

#include <algorithm>

#include "ringshard/base/error.hpp"

namespace ringshard::shard {

Chunks::Chunks(const std::vector<Range>& shards, int64_t most) : shards_(shards) {
    for (size_t unit = 0; unit < shards.size(); ++unit) {
        first_.push_back(chunks_.size());
        const Range& shard = shards[unit];
        const int64_t step = most == whole_shards ? shard.size() : most;
        for (int64_t begin = shard.begin; begin < shard.end; begin += step)
            chunks_.push_back({unit, {begin, std::min(begin + step, shard.end)}});
    }
    first_.push_back(chunks_.size());
}

Chunks Chunks::of_blocks(int64_t elements) const {
    const auto blocks = [&](Range& range) {
        RINGSHARD_CHECK(range.begin % elements == 0 && range.end % elements == 0,
                        "elements {} to {} are not of blocks of {}", range.begin, range.end,
                        elements);
        range = {range.begin / elements, range.end / elements};
    };
    Chunks divided = *this;
    for (Range& shard : divided.shards_) blocks(shard);
    for (Chunk& chunk : divided.chunks_) blocks(chunk.range);
    return divided;
}

namespace {

class MemoryStore final : public FlatStore {
public:
    MemoryStore(const Chunks& chunks, std::vector<at::Tensor> shards)
        : chunks_(chunks), shards_(std::move(shards)) {}

    at::Tensor load(size_t chunk, Access) override {
        const auto& [unit, range] = chunks_[chunk];
        return shards_[unit].narrow(0, range.begin - chunks_.shard(unit).begin, range.size());
    }
    void store(size_t, at::Tensor) override {}
    void prefetch(size_t) override {}
    at::Tensor load_shard(size_t unit) override { return shards_[unit]; }
    at::ScalarType type() const override { return shards_.front().scalar_type(); }
    int64_t bytes() const override {
        int64_t bytes = 0;
        for (const at::Tensor& shard : shards_) bytes += static_cast<int64_t>(shard.nbytes());
        return bytes;
    }

private:
    const Chunks& chunks_;
    std::vector<at::Tensor> shards_;
};

}  // namespace

std::unique_ptr<FlatStore> keep_in_memory(const Chunks& chunks, std::vector<at::Tensor> shards) {
    return std::make_unique<MemoryStore>(chunks, std::move(shards));
}

}  // namespace ringshard::shard
